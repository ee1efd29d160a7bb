"""The command `ptxsim` (and `python -m ptxsim`): one compiled kernel, run by hand. See docs/ptxsim/by_example.md."""
