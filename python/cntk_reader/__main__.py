"""``python -m cntk_reader`` is the command-line tool."""

import sys

from ._tool import main

if __name__ == "__main__":
    sys.exit(main())
