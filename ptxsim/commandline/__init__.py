"""The command `ptxsim` (`python -m ptxsim`): run one compiled kernel.

See docs/ptxsim_by_example.md.
"""
