"""Pictures of documents: picture.py same A.png B.png | picture.py pack FROM.png TO.png

`same` fails unless both files have the same pixels. `pack` writes the pixels of one file, compressed, to another. Only for files as
examples/images/png.hpp and this script write them: red, green and blue in 8 bits, without filters.
"""

import struct
import sys
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def read(path):
    """Returns the header and the lines of pixels."""
    data = open(path, "rb").read()
    assert data[:8] == SIGNATURE, f"{path} is not a PNG file"
    at, parts = 8, {}
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        parts[kind] = parts.get(kind, b"") + data[at + 8 : at + 8 + size]
        at += size + 12
    return parts[b"IHDR"], zlib.decompress(parts[b"IDAT"])


def write(path, header, lines):
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    with open(path, "wb") as file:
        file.write(SIGNATURE)
        for kind, data in parts:
            crc = struct.pack(">I", zlib.crc32(kind + data))
            file.write(struct.pack(">I", len(data)) + kind + data + crc)


if len(sys.argv) != 4 or sys.argv[1] not in ("same", "pack"):
    sys.exit(__doc__.splitlines()[0])
if sys.argv[1] == "pack":
    write(sys.argv[3], *read(sys.argv[2]))
elif read(sys.argv[2]) != read(sys.argv[3]):
    sys.exit(f"{sys.argv[2]} and {sys.argv[3]} have different pixels")
