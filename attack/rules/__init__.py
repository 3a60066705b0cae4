"""Rules of CNTK 2.7 in plain Python, written from its documented behaviour, not from the engine."""
