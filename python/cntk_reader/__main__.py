"""Runs the command-line tool: ``python -m cntk_reader``."""

import sys

from ._tool import main

if __name__ == "__main__":
    sys.exit(main())
