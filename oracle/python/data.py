"""Data files for the cases: small, with the same bytes on every machine."""

import base64
import os
import random
import struct
import zipfile


def numbers(rng, count):
    """Returns random values, some of which text represents exactly."""
    return [rng.choice(['%d', '%.1f', '%.3f', '%.7f', '%.3e']) % rng.uniform(-100, 100) for _ in range(count)]


def sparse(rng, dim, least=0):
    indices = sorted(rng.sample(range(dim), rng.randint(least, min(4, dim))))
    return ' '.join('%d:%s' % (i, v) for i, v in zip(indices, numbers(rng, len(indices))))


def write(path, text):
    with open(path, 'wb') as file:
        file.write(text if isinstance(text, bytes) else text.encode('utf-8'))
    return path


def samples(path, count=50, seed=1):
    """One sample a line: x (2 dense), y (3 dense), s (11 sparse)."""
    rng = random.Random(seed)
    line = '|x %s |y %s |s %s\n'
    return write(path, ''.join(
        line % (' '.join(numbers(rng, 2)), ' '.join(numbers(rng, 3)), sparse(rng, 11)) for _ in range(count)))


def sequences(path, count=40, seed=2, streams='xsw', longest=9, keys=None):
    """Sequences of different lengths: x (2 dense), s (11 sparse), w (one number for a whole sequence)."""
    rng = random.Random(seed)
    lines = []
    for key in keys or range(count):
        length = rng.randint(1, longest)
        for step in range(length):
            parts = []
            if 'x' in streams:
                parts.append('|x ' + ' '.join(numbers(rng, 2)))
            if 's' in streams and step % 3 != 2:
                parts.append('|s ' + sparse(rng, 11, 1))
            if 'w' in streams and step == 0:
                parts.append('|w ' + numbers(rng, 1)[0])
            if parts:
                lines.append('%d %s\n' % (key, ' '.join(parts)))
    return write(path, ''.join(lines))


def tagged(path, count=60, seed=3):
    """Words and their tags: sequences of w (20 sparse) and t (5 sparse); a tag follows from two words."""
    rng = random.Random(seed)
    lines = []
    for key in range(count):
        last = 0
        for _ in range(rng.randint(2, 12)):
            word = rng.randrange(20)
            lines.append('%d |w %d:1 |t %d:1\n' % (key, word, (word + last) % 5))
            last = word
    return write(path, ''.join(lines))


def binary(path, chunks=(5, 3, 7), longest=4, seed=4):
    """A file in CNTK's binary format: f (2 dense) and g (6 sparse)."""
    rng = random.Random(seed)
    magic = struct.pack('<Q', 0x636E746B5F62696E)
    out = bytearray(magic + struct.pack('<I', 1))
    table = b''
    for count in chunks:
        lengths = [rng.randint(1, longest) for _ in range(count)]
        table += struct.pack('<qII', len(out), count, sum(lengths))
        out += struct.pack('<%dI' % count, *lengths)
        for length in lengths:
            values = [rng.uniform(-9, 9) for _ in range(2 * length)]
            out += struct.pack('<I%df' % len(values), length, *values)
        for length in lengths:
            steps = [sorted(rng.sample(range(6), rng.randint(1, 3))) for _ in range(length)]
            rows = [row for step in steps for row in step]
            out += struct.pack('<Ii', length, len(rows))
            out += struct.pack('<%df' % len(rows), *(rng.uniform(-9, 9) for _ in rows))
            out += struct.pack('<%di' % len(rows), *rows)
            out += struct.pack('<%di' % length, *(len(step) for step in steps))
    header = len(out)
    out += magic + struct.pack('<II', len(chunks), 2)
    out += struct.pack('<BI', 0, 1) + b'f' + struct.pack('<BI', 0, 2)
    out += struct.pack('<BI', 1, 1) + b'g' + struct.pack('<BI', 0, 6)
    return write(path, bytes(out) + table + struct.pack('<q', header))


STATES = ['%s_s%d' % (phone, state) for phone in ('sil', 'aa', 'bb', 'cc') for state in (2, 3, 4)]


def speech(folder, utterances=8, dim=3, seed=5, name='utt%d', frames=(3, 12)):
    """Features of several utterances in one HTK archive, with a script, labels and the list of their states."""
    rng = random.Random(seed)
    lengths = [rng.randint(*frames) for _ in range(utterances)]
    archive = os.path.join(folder, 'all.htk')
    values = [rng.uniform(-5, 5) for _ in range(sum(lengths) * dim)]
    write(archive, struct.pack('>iihh', sum(lengths), 100000, 4 * dim, 9) + struct.pack('>%df' % len(values), *values))
    script, labels, first = [], ['#!MLF!#\n'], 0
    for number, length in enumerate(lengths):
        script.append('%s.feat=%s[%d,%d]\n' % (name % number, archive, first, first + length - 1))
        first += length
        labels.append('"%s.lab"\n' % (name % number))
        at = 0
        while at < length:
            end = min(length, at + rng.randint(1, 4))
            labels.append('%d %d %s\n' % (at * 100000, end * 100000, rng.choice(STATES)))
            at = end
        labels.append('.\n')
    write(os.path.join(folder, 'states.list'), ''.join(state + '\n' for state in STATES))
    write(os.path.join(folder, 'features.scp'), ''.join(script))
    write(os.path.join(folder, 'labels.mlf'), ''.join(labels))
    return [os.path.join(folder, name) for name in ('features.scp', 'labels.mlf', 'states.list')]


def vectors(folder, utterances=8, dim=2, name='utt%d'):
    """One frame for each utterance of `speech`, and its script."""
    archive = os.path.join(folder, 'vectors.htk')
    values = [number + 0.5 * value for number in range(utterances) for value in range(dim)]
    write(archive, struct.pack('>iihh', utterances, 100000, 4 * dim, 9) + struct.pack('>%df' % len(values), *values))
    lines = ['%s.vec=%s[%d,%d]\n' % (name % number, archive, number, number) for number in range(utterances)]
    return write(os.path.join(folder, 'vectors.scp'), ''.join(lines))


def lattices(folder, utterances=8, seed=6, name='utt%d'):
    """Bytes for each utterance of `speech`, whole words, their table of contents, and the list that names it."""
    rng = random.Random(seed)
    content, toc = b'', ''
    path = os.path.join(folder, 'all.lat')
    for number in range(utterances):
        toc += '%s=%s[%d]\n' % (name % number, '' if number else path, len(content))
        content += bytes(rng.randrange(1, 100) for _ in range(4 * rng.randint(1, 12)))
    write(path, content)
    table = write(os.path.join(folder, 'lattices.toc'), toc)
    return write(os.path.join(folder, 'lattices.list'), table + '\n')


def binary_labels(folder, utterances=8, seed=5, frames=(3, 12), name='utt%d'):
    """Labels of `speech` as a binary file: one class for each utterance."""
    rng = random.Random(seed)
    content = b'MLF' + struct.pack('<h', 2)
    for number in range(utterances):
        length, key = rng.randint(*frames), (name % number).encode()
        content += struct.pack('<H', len(key)) + key + struct.pack('<IHHH', length, 1, number, length)
    return write(os.path.join(folder, 'labels.bin'), content)


def bitmap(path, width, height, seed):
    """A colour image without compression."""
    rng = random.Random(seed)
    row = (3 * width + 3) // 4 * 4
    pixels = bytes(rng.randrange(256) for _ in range(row * height))
    head = struct.pack('<2sIHHI', b'BM', 54 + len(pixels), 0, 0, 54)
    info = struct.pack('<IiiHHIIiiII', 40, width, height, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    return write(path, head + info + pixels)


def images(folder, count=12, classes=4, size=(13, 9)):
    """Bitmaps, and the map that lists them."""
    lines = []
    for number in range(count):
        path = bitmap(os.path.join(folder, 'image%d.bmp' % number), size[0] + number % 3, size[1] + number % 2, number)
        lines.append('%s\t%d\n' % (path, number % classes))
    return write(os.path.join(folder, 'images.map'), ''.join(lines))


def mean(path, width, height, channels=3):
    """Writes a mean image for CNTK: OpenCV's XML with one row of float32."""
    values = ' '.join('%.1f' % (i % 97) for i in range(width * height * channels))
    return write(path, (
        '<?xml version="1.0"?>\n<opencv_storage>\n<Channel>%d</Channel>\n<Row>%d</Row>\n<Col>%d</Col>\n'
        '<MeanImg type_id="opencv-matrix">\n<rows>1</rows>\n<cols>%d</cols>\n<dt>f</dt>\n<data>\n%s</data></MeanImg>\n'
        '</opencv_storage>\n') % (channels, height, width, width * height * channels, values))


def intensity(path):
    """Writes principal components of colors for CNTK: OpenCV's XML."""
    matrix = ('<%s type_id="opencv-matrix">\n<rows>%d</rows>\n<cols>3</cols>\n<dt>f</dt>\n<data>\n%s</data></%s>\n')
    values = matrix % ('EigVal', 1, '0.2175 0.0188 0.0045', 'EigVal')
    vectors = '-0.5675 0.7192 0.4009 -0.5808 -0.0045 -0.8140 -0.5836 -0.6948 0.4203'
    return write(path, '<?xml version="1.0"?>\n<opencv_storage>\n%s%s</opencv_storage>\n' % (
        values, matrix % ('EigVec', 3, vectors, 'EigVec')))


def container(path, files):
    """A zip file of files, every other one deflated."""
    with zipfile.ZipFile(path, 'w') as archive:
        for number, file in enumerate(files):
            method = zipfile.ZIP_DEFLATED if number % 2 else zipfile.ZIP_STORED
            archive.write(file, os.path.basename(file), method)
    return path


def base64_images(path, count=8, classes=4):
    """Bitmaps in lines of Base64."""
    lines = []
    for number in range(count):
        with open(bitmap('encoded.bmp', 13 + number % 3, 9 + number % 2, number), 'rb') as file:
            lines.append('%d\t%s\n' % (number % classes, base64.b64encode(file.read()).decode()))
    return write(path, ''.join(lines))


# A JPEG image of 45 x 35 pixels, with colours at half the resolution.
JPEG = (
    '/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5PTgy'
    'PC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjL/wAARCAAjAC0D'
    'ASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKB'
    'kaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZ'
    'mqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQF'
    'BgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5'
    'OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX'
    '2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwDzS4u5JX4LY+tU1tpJ2xg59TW/aaG8hHy5zXS6f4cJI3IeuOnFfR8Q5tSw8OWLIoYV'
    '9TlNO0B5mAKH8q7zRvC2NnydD+FdHpPh1UwSn6V2NjpscIGRgACvhMNmMq1S6N50dDJ0zQFiUEpg4rbSzjiXbgCrEtxFbx9vlrn7zXI45dofH0Fd'
    'uNxFRxSQUcMm7swLDw8qADb+GO9b9rpkcQHyYwelaUnlQAEbRWddatFEpO4Z9q+TzXG1sZX5UdfPGKNOPyoF5Ix1FV7vWI4VIyBj35rlb/xCqKcP'
    'XIar4lJDDfzX2HD2RzcFOSOSpWVzqdZ8TBFOZMZHrXB3/iYmfJOfTnFc7qWuSzE/NyffNYLzPI27cfxr2Mfg4QdmKGI5UfTeqSyDOHPWuI1C5myR'
    '5jdKKK/PcAk8RqRM5W/uJdufMOTXN3kshIJc5NFFftuVxSw2hxv4jKzuYbufrWjDDGFJ2jk0UV8nnTaqgf/Z')


def photograph(path):
    return write(path, base64.b64decode(JPEG))
