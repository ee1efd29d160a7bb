"""Entry point of `python -m ptxsim` and of the command `ptxsim`."""

import sys

from .commandline.main import main

if __name__ == "__main__":
    sys.exit(main())
