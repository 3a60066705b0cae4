"""Images and their transforms."""

import os

import data
import cntk.io.transforms as xforms
from cntk.io import ImageDeserializer, StreamDef, StreamDefs
from recorder import case


def images(transforms, labels=True, **options):
    path = data.images(os.getcwd(), **options)
    streams = {'features': StreamDef(field='image', transforms=transforms)}
    if labels:
        streams['labels'] = StreamDef(field='label', shape=4)
    return ImageDeserializer(path, StreamDefs(**streams))


SMALL = xforms.scale(width=5, height=4, channels=3)


@case(needs='images')
def image_scaled(r):
    r.read(r.source([images([SMALL])], randomize=False, max_sweeps=1), 5)


@case(needs='images')
def image_randomized(r):
    r.read(r.source([images([SMALL])], max_sweeps=2), 5)


@case(needs='images')
def image_centre(r):
    crop = xforms.crop(crop_type='center', side_ratio=0.5)
    r.read(r.source([images([crop, SMALL])], max_sweeps=1), 5)


@case(needs='images')
def image_interpolations(r):
    for kind in ('nearest', 'linear', 'cubic', 'lanczos'):
        r.read(r.source([images([xforms.scale(width=7, height=5, channels=3, interpolations=kind)])], max_sweeps=1), 12)


@case(needs='images')
def image_padded(r):
    scale = xforms.scale(width=8, height=8, channels=3, scale_mode='pad', pad_value=114)
    r.read(r.source([images([scale])], max_sweeps=1), 12)


@case(needs='images')
def image_mean(r):
    mean = xforms.mean(data.mean(os.path.abspath('mean.xml'), 5, 4))
    r.read(r.source([images([SMALL, mean])], max_sweeps=1), 12)


@case(needs='images')
def image_without_scale(r):
    r.read(r.source([images([], count=1)], max_sweeps=1), 1)


@case(needs='images')
def image_of_varying_shape(r):
    r.read(r.source([images([])], randomize=False, max_sweeps=1), 4, 2)


@case(needs='images')
def image_random_crop(r):
    crop = xforms.crop(crop_type='randomside', side_ratio=0.5)
    source = r.source([images([crop, SMALL])], max_sweeps=1, multithreaded_deserializer=False)
    r.read(source, 5)


@case(needs='images')
def image_jpeg(r):
    data.write('photographs.map', '%s\t1\n' % data.photograph('photograph.jpg'))
    streams = StreamDefs(features=StreamDef(field='image', transforms=[]), labels=StreamDef(field='label', shape=4))
    r.read(r.source([ImageDeserializer('photographs.map', streams)], randomize=False, max_sweeps=1), 1)


@case(needs='images')
def image_checkpoint(r):
    source = r.source([images([SMALL])], max_sweeps=3)
    r.read(source, 5, 2)
    state = r.state(source)
    r.read(source, 5, 3)
    r.restore(source, state)
    r.read(source, 5)


@case(needs='images')
def image_two_workers(r):
    for rank in range(2):
        r.read(r.source([images([SMALL])], max_sweeps=1), 6, workers=2, rank=rank)


@case(needs='images')
def image_class_too_large(r):
    r.read(r.source([images([SMALL], classes=9)], max_sweeps=1), 6, 3)


@case(needs='images')
def image_missing(r):
    data.write('missing.map', 'none.bmp\t0\n')
    streams = StreamDefs(features=StreamDef(field='image', transforms=[SMALL]), labels=StreamDef(field='label', shape=4))
    r.read(r.source([ImageDeserializer('missing.map', streams)], max_sweeps=1), 1, 2)
