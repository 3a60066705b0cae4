"""Edge cases: every operation of the package under conditions that programs rarely meet.

``python -m edges`` runs the short form, ``python -m edges --long`` tries every point, and
``python -m edges --faults`` runs each edge on deliberately broken operations, which it must detect.
Names of edges select some of them.
"""

import sys
from pathlib import Path

#: The folder that contains this package. It also contains the sources of `cntk_reader`, without the
#: extension module, so an installed package must come first.
FOLDER = Path(__file__).resolve().parents[1]

sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != FOLDER] + [str(FOLDER)]
