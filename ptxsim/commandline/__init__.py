"""The command `ptxsim` (and `python -m ptxsim`): one compiled kernel, run by hand. See docs/ptxsim_by_example.md."""
