"""The command `ptxsim` (`python -m ptxsim`): run one compiled kernel.

See docs/ptxsim/by_example.md.
"""
