"""`python -m ptxsim FOLDER --arg ...` and the command `ptxsim`."""

import sys

from .commandline.main import main

if __name__ == "__main__":
    sys.exit(main())
