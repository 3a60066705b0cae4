"""Runs cases under CNTK and prints the data they read, for one side of a comparison.

usage: dump.py FOLDER NAME ...       each case works in FOLDER/NAME
       dump.py --list                names and properties of all cases

Before a case comes {"case": NAME}, after it {"end": NAME}: a case without an end has ended the process. The last line
names the reader modules that were loaded.
"""

import json
import os
import shutil
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import recorder     # noqa: E402
from cases import binary, endurance, faults, image, joined, mixed, sequences, speech, text, user     # noqa: E402,F401


def main(arguments):
    # Native code sometimes prints to standard output; lines go to a private copy of it.
    out = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)

    def print_line(line):
        out.write(line + '\n')
        out.flush()

    cases = {function.__name__: (function, about) for function, about in recorder.CASES}
    if arguments == ['--list']:
        for function, about in recorder.CASES:
            print_line(json.dumps(dict(about, name=function.__name__), sort_keys=True))
        return
    folder, names = os.path.abspath(arguments[0]), arguments[1:]
    for name in names:
        place = os.path.join(folder, name)
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        os.chdir(place)
        print_line(json.dumps({'case': name}))
        recording = recorder.Recorder(print_line)
        try:
            cases[name][0](recording)
        except recorder.Ended:
            pass
        except Exception as error:
            traceback.print_exc()   # a mistake in the case itself, which fails the comparison
            recording.line(step='case', error=type(error).__name__, message=recorder.first_line(error))
        print_line(json.dumps({'end': name}))
    # The interpreter then exits on its own while sources still read: that is part of the
    # comparison.
    print_line(json.dumps({'modules': recorder.modules()}))


if __name__ == '__main__':
    main(sys.argv[1:])
