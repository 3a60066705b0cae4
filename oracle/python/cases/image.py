"""Images and their transforms."""

import os

import data
import cntk.io.transforms as xforms
from cntk.io import Base64ImageDeserializer, CTFDeserializer, ImageDeserializer, StreamDef, StreamDefs
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


def bare(path, transforms, kind='ImageDeserializer', **keys):
    """Returns a deserializer without CNTK's helpers, which lack some keys and append a Transpose."""
    streams = {'features': {'transforms': transforms}, 'labels': {'labelDim': 4}}
    return dict(keys, type=kind, module='ImageReader', file=path, input=streams)


def transform(kind, **keys):
    return dict(keys, type=kind)


def bitmaps(**options):
    return data.images(os.getcwd(), **options)


RAW_SMALL = transform('Scale', width=5, height=4, channels=3)


@case(needs='images')
def image_without_transpose(r):
    r.read(r.source([bare(bitmaps(), [RAW_SMALL])], randomize=False, max_sweeps=1), 5)


@case(needs='images')
def image_cast(r):
    r.read(r.source([bare(bitmaps(), [RAW_SMALL, transform('Cast')])], randomize=False, max_sweeps=1), 5)


@case(needs='images')
def image_gray(r):
    scale = transform('Scale', width=5, height=4, channels=1)
    deserializer = bare(bitmaps(), [scale, transform('Transpose')], grayscale=True)
    r.read(r.source([deserializer], randomize=False, max_sweeps=1), 5)


@case(needs='images')
def image_ten_views(r):
    crop = transform('Crop', cropType='MultiView10', sideRatio=0.6)
    deserializer = bare(bitmaps(count=3), [crop, RAW_SMALL, transform('Transpose')], multiViewCrop=True)
    r.read(r.source([deserializer], randomize=False, max_sweeps=1), 7)


@case(needs='images')
def image_ten_views_by_helper(r):
    crop = xforms.crop(crop_type='multiview10', side_ratio=0.6)
    r.read(r.source([images([crop, SMALL])], randomize=False, max_sweeps=1), 5)


@case(needs='images')
def image_random_area(r):
    crop = xforms.crop(crop_type='randomarea', area_ratio=(0.1, 0.9), aspect_ratio=(0.75, 1.5), jitter_type='uniratio')
    r.read(r.source([images([crop, SMALL])], max_sweeps=3), 5)


@case(needs='images')
def image_crop_of_a_size(r):
    r.read(r.source([images([xforms.crop(crop_type='randomside', crop_size=(6, 5))])], max_sweeps=2), 5)


@case(needs='images')
def image_crops_with_seeds(r):
    crops = [transform('Crop', cropType='RandomSide', sideRatio='0.5:1', jitterType='UniRatio', seed=7, hflip=False),
             transform('Crop', cropType='Center', cropSize='6:4', hflip=True, seed=2)]
    r.read(r.source([bare(bitmaps(), crops + [RAW_SMALL])], max_sweeps=3), 4)


@case(needs='images')
def image_sizes_change(r):
    """Random draws of prefetched and dropped minibatches count."""
    crop = xforms.crop(crop_type='randomside', side_ratio=0.5)
    source = r.source([images([crop, SMALL])], max_sweeps=4)
    for size in (4, 4, 3, 3, 5, 1, 2):
        r.read(source, size, 1)
    r.read(source, 6)


@case(needs='images')
def image_crop_after_restoring(r):
    crop = xforms.crop(crop_type='randomside', side_ratio=0.5)
    source = r.source([images([crop, SMALL])], max_sweeps=3)
    r.read(source, 5, 2)
    state = r.state(source)
    r.read(source, 5, 3)
    r.restore(source, state)
    r.read(source, 5)


@case(needs='images')
def image_crops_of_two_workers(r):
    crop = xforms.crop(crop_type='randomside', side_ratio=0.5)
    for rank in range(2):
        r.read(r.source([images([crop, SMALL])], max_sweeps=2), 6, workers=2, rank=rank)


@case(needs='images')
def image_colors(r):
    color = xforms.color(brightness_radius=0.2, contrast_radius=0.3, saturation_radius=0.4)
    r.read(r.source([images([SMALL, color])], max_sweeps=2), 5)


@case(needs='images')
def image_colors_before_scale(r):
    color = transform('Color', brightnessRadius=0.5, contrastRadius=0.9, seed=11)
    r.read(r.source([bare(bitmaps(), [color, RAW_SMALL])], max_sweeps=2), 5)


@case(needs='images')
def image_intensity(r):
    intensity = transform('Intensity', intensityStdDev=5.0, intensityFile=data.intensity('intensity.xml'))
    r.read(r.source([bare(bitmaps(), [RAW_SMALL, intensity, transform('Transpose')])], max_sweeps=2), 5)


@case(needs='images')
def image_floats_scaled(r):
    """A mean image of the same size converts images to floats before they are scaled."""
    mean = xforms.mean(data.mean(os.path.abspath('mean.xml'), 13, 9))
    for kind in ('nearest', 'linear', 'cubic', 'lanczos'):
        scale = xforms.scale(width=7, height=5, channels=3, interpolations=kind)
        r.read(r.source([images([mean, scale], count=1)], max_sweeps=1), 1)


@case(needs='images')
def image_mean_of_another_size(r):
    mean = xforms.mean(data.mean(os.path.abspath('mean.xml'), 3, 3))
    r.read(r.source([images([SMALL, mean])], max_sweeps=1), 5)


@case(needs='images')
def image_enlarged(r):
    for kind in ('nearest', 'linear', 'cubic', 'lanczos'):
        scale = xforms.scale(width=31, height=23, channels=3, interpolations=kind)
        r.read(r.source([images([scale], count=2)], max_sweeps=1), 2)


@case(needs='images')
def image_cut_to_a_square(r):
    scale = xforms.scale(width=6, height=6, channels=3, scale_mode='crop', interpolations='cubic')
    r.read(r.source([images([scale])], max_sweeps=1), 12)


@case(needs='images')
def image_padded_with_its_border(r):
    scale = xforms.scale(width=8, height=8, channels=3, scale_mode='pad')
    r.read(r.source([images([scale])], max_sweeps=1), 12)


@case(needs='images')
def image_crop_type_unknown(r):
    r.source([images([xforms.crop(crop_type='random', side_ratio=0.5)])], max_sweeps=1)


@case(needs='images')
def image_transform_after_transpose(r):
    r.read(r.source([bare(bitmaps(), [transform('Transpose'), RAW_SMALL])], max_sweeps=1), 3, 1)


@case(needs='images')
def image_keys(r):
    lines = open(bitmaps()).read().splitlines()
    path = data.write('keys.map', ''.join('%d\t%s\n' % (30 - 2 * n, line) for n, line in enumerate(lines)))
    r.read(r.source([bare(path, [RAW_SMALL])], max_sweeps=2), 5)


@case(needs='images')
def image_beside_text(r):
    text = data.write('beside.ctf', ''.join('%d |t %d.5 2\n' % (key, key) for key in (9, 3, 5, 0, 77, 1)))
    beside = CTFDeserializer(text, StreamDefs(text=StreamDef(field='t', shape=2)))
    r.read(r.source([beside, images([SMALL])], max_sweeps=2), 3)
    r.read(r.source([images([SMALL]), beside], max_sweeps=2), 3)


@case(needs='images')
def image_in_a_container(r):
    path = data.container('c.zip', [data.bitmap('%d.bmp' % n, 13, 9, n) for n in range(4)])
    data.write('zip.map', ''.join('%s@/%d.bmp\t%d\n' % (os.path.abspath(path), n, n) for n in range(4)))
    r.read(r.source([bare('zip.map', [RAW_SMALL])], max_sweeps=2), 3)


@case(needs='images')
def image_base64(r):
    path = data.base64_images('images.txt')
    streams = StreamDefs(features=StreamDef(field='image', transforms=[SMALL]), labels=StreamDef(field='label', shape=4))
    r.read(r.source([Base64ImageDeserializer(path, streams)], max_sweeps=2), 5)


@case(needs='images')
def image_base64_views(r):
    crop = transform('Crop', cropType='MultiView10', cropSize='6:5')
    deserializer = bare(data.base64_images('images.txt', count=3), [crop], 'Base64ImageDeserializer', multiViewCrop=True)
    r.read(r.source([deserializer], randomize=False, max_sweeps=1), 7)


@case(needs='images')
def image_frame_mode(r):
    r.read(r.source([images([SMALL])], frame_mode=True, max_sweeps=2), 5)


@case(needs='images')
def image_window_of_samples(r):
    source = r.source([images([SMALL])], randomization_window_in_chunks=0, randomization_window_in_samples=5, max_sweeps=2)
    r.read(source, 5)
