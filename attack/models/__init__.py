"""The kinds of cases. Each module creates a random case and compares the reader with a model."""

from __future__ import annotations

#: The kinds, in the order in which they take turns: the names of modules of this package.
KINDS = ["ctf", "order", "resume", "convert", "pack", "kaldi", "htk", "images"]
