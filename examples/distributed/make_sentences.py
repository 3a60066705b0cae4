"""Writes sentences with a tag for each word, as `sentences.ctf`: `python make_sentences.py [FOLDER]`.

A word's tag depends on the word and the previous one, so that it can be learned. The output is byte-identical on every machine.
"""

import random
import sys
from pathlib import Path

SENTENCES, WORDS, TAGS = 1200, 500, 8


def main() -> None:
    """Writes the file."""
    chance = random.Random(7)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    with open(folder / "sentences.ctf", "w", encoding="ascii", newline="\n") as file:
        for sentence in range(SENTENCES):
            before = 0
            for _ in range(chance.randint(3, 30)):
                # Small numbers are frequent, like a few words of a language.
                word = min(int(chance.expovariate(0.02)), WORDS - 1)
                tag = (word + before) % TAGS if word % 4 else word // 4 % TAGS
                file.write(f"{sentence} |words {word}:1 |tags {tag}:1\n")
                before = word % 2


main()
