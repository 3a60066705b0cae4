"""Runs the program of docs/tool.md that converts in parts as tasks of Ray: ray_parts.py FOLDER

Writes data into FOLDER, runs the program there with Ray on this machine alone, and compares the digest of the merged
report with that of the whole.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import ray

PAGE = Path(__file__).resolve().parents[2] / "docs/tool.md"
#: The number of parts in the program, and in the test.
PARTS = ("parts, folder = 100,", "parts, folder = 4,")
CONFIGURATION = """deserializers = ([ type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader"
    file = "train.ctf" ; chunkSizeInBytes = 500 ; input = [ x = [ dim = 1 ; format = "dense" ] ] ])
"""
#: The tool, with the Python that has the package.
TOOL = f'#!/bin/sh\nexec {sys.executable} -m cntk_reader "$@"\n'


def program():
    """Returns the program of the page."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (text,) = [block for block in blocks if "import ray" in block]
    if PARTS[0] not in text:
        sys.exit(f"{PAGE}: the program has no {PARTS[0]!r}")
    return text.replace(*PARTS)


def main(folder):
    """Converts in parts, and as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    Path("train.ctf").write_text("".join(f"|x {number}\n" for number in range(1000)))
    Path("train.cntk").write_text(CONFIGURATION)
    tool = Path("bin/cntk-reader").absolute()
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(TOOL)
    tool.chmod(0o755)
    os.environ["PATH"] = f"{tool.parent}:{os.environ['PATH']}"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(include_dashboard=False)
    exec(compile(program(), str(PAGE), "exec"), {"__name__": "__main__"})
    ray.shutdown()

    reports = sorted(Path("out").glob("*.json"))
    command = [tool, "merge", "--format", "json", *reports]
    merged = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    command = [tool, "convert", "train.cntk", "whole.cbf", "--format", "json"]
    whole = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    if merged["digest"] != whole["digest"] or merged["sequences"] != 1000 or len(reports) != 4:
        sys.exit(f"The parts are not the whole: {merged} {whole}")
    print(f"{len(reports)} parts, digest {merged['digest']}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
