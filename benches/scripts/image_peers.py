"""Times how another library reads images: image_peers.py LIBRARY FOLDER THREADS

FOLDER has the images of benches/images. Prints one line of JSON: the version of the library, the
seconds to read all images, and their sums. Decoders read and decode each file on THREADS threads,
and sum all values in a second pass that is not timed (see benches/images/sums.rs). The others are
PyTorch's DataLoader with THREADS processes: random crops, scaled to 224 x 224, mirrored at random,
less a mean image or as bytes, in batches of 64.
"""

import json
import sys
import threading
import time
from pathlib import Path

import numpy

library, folder, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
paths = sorted(str(path) for path in (folder / "files").iterdir())
# Relative area and aspect ratio of crops, as in the configurations of benches/src/images/corpus.rs.
AREA, ASPECT, SIDE, BATCH = (0.08, 1.0), (0.75, 4 / 3), 224, 64


def simplejpeg():
    """A thin layer over libjpeg-turbo."""
    import simplejpeg

    def decode(path):
        with open(path, "rb") as file:
            return simplejpeg.decode_jpeg(file.read(), "BGR", fastdct=False, fastupsample=False)

    return simplejpeg.__version__, decode


def pillow():
    import PIL
    from PIL import Image

    def decode(path):
        with Image.open(path) as image:
            image.load()
            return image

    return PIL.__version__, decode


def time_decoder(version, decode):
    weights, lock = numpy.zeros(0, numpy.uint64), threading.Lock()
    sums = {"images": 0, "values": 0, "weighted": 0}

    def add(number, image):
        nonlocal weights
        pixels = numpy.asarray(image)
        if library == "pillow":
            pixels = pixels[:, :, ::-1]
        values = pixels.reshape(-1).astype(numpy.uint64)
        with lock:
            if weights.size != values.size:
                weights = (numpy.arange(values.size) % 251 + 1).astype(numpy.uint64)
            sums["images"] += 1
            sums["values"] += values.size
            sums["weighted"] += (number % 1009 + 1) * int(values @ weights)

    def all_images(use):
        def work(first):
            for number in range(first, len(paths), threads):
                use(number, decode(paths[number]))

        begin = time.perf_counter()
        workers = [threading.Thread(target=work, args=(first,)) for first in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.perf_counter() - begin

    seconds = all_images(lambda number, image: None)
    all_images(add)
    return {"version": version, "seconds": seconds, "sums": sums}


def time_loader(of_tensors, of_bytes=False):
    import torch
    import torchvision
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    mean = torch.full((3, SIDE, SIDE), 115.875)
    change = [v2.RandomResizedCrop(SIDE, AREA, ASPECT, antialias=True), v2.RandomHorizontalFlip()]
    if not of_tensors:
        change.append(v2.PILToTensor())
    change = v2.Compose(change)

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return len(paths)

        def __getitem__(self, number):
            if of_tensors:
                data = torchvision.io.read_file(paths[number])
                image = torchvision.io.decode_jpeg(data, torchvision.io.ImageReadMode.RGB)
            else:
                image = torchvision.datasets.folder.default_loader(paths[number])
            image = change(image)
            return image if of_bytes else image.to(torch.float32).sub_(mean), number % 1000

    loader = torch.utils.data.DataLoader(
        Images(), BATCH, shuffle=True, num_workers=threads, persistent_workers=True
    )
    # The first epoch starts the workers; the second one is timed.
    for _ in range(2):
        begin, images = time.perf_counter(), 0
        for batch, labels in loader:
            assert batch.shape[1:] == (3, SIDE, SIDE) and len(labels) == len(batch)
            assert batch.dtype == (torch.uint8 if of_bytes else torch.float32)
            images += len(batch)
        seconds = time.perf_counter() - begin
    return {"version": torchvision.__version__, "seconds": seconds, "sums": {"images": images}}


if library == "dataloader":
    result = time_loader(of_tensors=False)
elif library == "dataloader-tensors":
    result = time_loader(of_tensors=True)
elif library == "dataloader-bytes":
    result = time_loader(of_tensors=True, of_bytes=True)
else:
    result = time_decoder(*{"simplejpeg": simplejpeg, "pillow": pillow}[library]())
print(json.dumps(result))
