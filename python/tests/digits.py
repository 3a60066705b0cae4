"""The example digits, which several tests read."""

from pathlib import Path

from cntk_reader import StreamDef, StreamDefs

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "data" / "digits.train.ctf"
STREAMS = StreamDefs(features=StreamDef(shape=64), labels=StreamDef(shape=10, is_sparse=True))
