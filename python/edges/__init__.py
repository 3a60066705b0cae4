"""Edges of Python: every operation of the package under conditions that programs rarely meet.

``python -m edges`` runs the short form, ``python -m edges --long`` tries every point and
``python -m edges --faults`` runs each edge on operations that are broken on purpose, which it has
to report. Names of edges select some of them.
"""

import sys
from pathlib import Path

#: The folder with this package. It has the sources of `cntk_reader` too, without the extension
#: module, so that an installed package has to come first.
FOLDER = Path(__file__).resolve().parents[1]

sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != FOLDER] + [str(FOLDER)]
