//! An image of a minibatch: fetched, planned, decoded and transformed, and viewed by the packer.

use super::Common;
use super::workers::Worker;
use crate::decode::{DecodeError, DecodeOptions, Header};
use crate::transform::{Draw, Plan};
use cntk_reader_core::format::fetch::{Failure, FetchedData, Parts};
use cntk_reader_core::image::{Drawn, Image, ImageInfo, Pixels, Region};
use cntk_reader_core::memory::Held;
use cntk_reader_core::sequence::{Loaded, SequenceKey, SequenceView, SparseView, ValueForm, ViewKind};
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use std::any::Any;
use std::sync::Arc;

/// The deserializer that an image comes from. Locates it in errors.
pub(super) trait Origin: Send + Sync {
    /// Returns the state common to all image deserializers.
    fn common(&self) -> &Arc<Common>;

    /// Adds the location of image `number` to an error.
    fn locate(&self, number: u64, error: Error) -> Error;

    /// See [`cntk_reader_core::corpus::Corpus::lasting_number`].
    fn lasting_number(&self, key: SequenceKey) -> u64;

    /// Returns the error for an image that cannot be decoded.
    fn broken(&self, number: u64, cause: DecodeError) -> Error;

    /// Handles an unusable image: `Err` if that ends reading, `Ok` if the image is skipped and
    /// counts as invalid.
    fn leave_out(&self, number: u64, error: Error) -> std::result::Result<Error, Error> {
        let _ = number;
        Err(error)
    }

    /// See [`Failure::ends_alone`].
    fn ends_alone(&self) -> bool;

    /// Records an image that was decoded although its data are damaged.
    fn damaged(&self, number: u64, damage: &str);
}

/// The identity of an image.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Identity {
    /// Its number in its [`Origin`].
    pub number: u64,
    /// Number of the view, in multi-view mode.
    pub copy: u32,
    pub key: SequenceKey,
}

/// The processing stage of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The image is unusable.
    Invalid,
    /// `file` holds the encoded image, whose header has been parsed.
    Encoded(Header),
    /// `image` holds the whole decoded image.
    Decoded,
}

/// An image with its label. Its memory is reused for other images.
pub(super) struct FetchedImage {
    common: Arc<Common>,
    /// `None` once released.
    origin: Option<Arc<dyn Origin>>,
    options: DecodeOptions,
    identity: Identity,
    stage: Stage,
    /// The reason why the image is unusable.
    failure: Option<Failure>,
    file: Vec<u8>,
    image: Image,
    plan: Plan,
    /// The shape of the sample, once it is planned.
    shape: [usize; 3],
    label: Label,
    draws: Draws,
    held: Held,
}

/// The random draws of an image as a sample, in the stream's type.
enum Draws {
    Floats([f32; Drawn::VALUES]),
    Doubles([f64; Drawn::VALUES]),
}

impl Draws {
    fn new(element: ElementType) -> Draws {
        match element {
            ElementType::Double => Draws::Doubles([0.0; Drawn::VALUES]),
            _ => Draws::Floats([0.0; Drawn::VALUES]),
        }
    }

    fn set(&mut self, drawn: &Drawn) {
        match self {
            Draws::Floats(values) => *values = drawn.values().map(|value| value as f32),
            Draws::Doubles(values) => *values = drawn.values(),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Draws::Floats(values) => bytemuck::cast_slice(values),
            Draws::Doubles(values) => bytemuck::cast_slice(values),
        }
    }
}

/// The data of a label.
enum Label {
    /// The class number, in the width of sparse indices.
    Narrow([u8; 2]),
    Wide([u8; 4]),
    /// One byte per class, all 0 except for one, and the index of that one.
    Dense(Box<[u8]>, usize),
}

impl Label {
    fn new(common: &Common) -> Label {
        match common.label_dim {
            dim if common.dense_labels => Label::Dense(vec![0; dim as usize].into(), 0),
            dim if dim <= 1 << 16 => Label::Narrow([0; 2]),
            _ => Label::Wide([0; 4]),
        }
    }

    /// Sets the class number, which must be below the dimension.
    fn set(&mut self, class: u32) {
        match self {
            Label::Narrow(bytes) => *bytes = (class as u16).to_ne_bytes(),
            Label::Wide(bytes) => *bytes = class.to_ne_bytes(),
            Label::Dense(bytes, one) => {
                bytes[*one] = 0;
                *one = class as usize;
                bytes[*one] = 1;
            }
        }
    }

    fn view(&self) -> SequenceView<'_> {
        let sparse = |indices, narrow| SequenceView {
            samples: 1,
            values: &[],
            form: ValueForm::Ones,
            kind: ViewKind::Sparse(SparseView { indices, narrow, offsets: &[0, 1], single: true }),
        };
        match self {
            Label::Narrow(bytes) => sparse(bytes, true),
            Label::Wide(bytes) => sparse(bytes, false),
            Label::Dense(bytes, _) => {
                SequenceView { samples: 1, values: bytes, form: ValueForm::Byte, kind: ViewKind::Dense }
            }
        }
    }
}

/// The buffers that reading an image fills.
pub(super) struct Content<'a> {
    /// The bytes of the image file.
    pub file: &'a mut Vec<u8>,
    /// Its pixels, for an origin that must decode it to know whether it is valid.
    pub image: &'a mut Image,
}

/// The result of reading an image.
pub(super) enum Read {
    /// [`Content::file`] holds the encoded image.
    Encoded(Header),
    /// [`Content::image`] holds the whole decoded image.
    Decoded,
    /// The image is unusable and counts as invalid, for the reason given.
    Invalid(Option<Error>),
}

/// Fetches an image for the streams from `first` on. `read` reads it and returns its label;
/// `options` determine how it will be decoded.
pub(super) fn fetch(
    origin: Arc<dyn Origin>,
    options: DecodeOptions,
    identity: Identity,
    (first, parts): (usize, &mut Parts),
    read: impl FnOnce(&mut Worker, Content<'_>) -> Result<(u32, Read)>,
) -> Result<()> {
    let common = Arc::clone(origin.common());
    parts.add(first, common.streams.len(), |used| {
        let used = used.and_then(|used| (used as Box<dyn Any>).downcast::<FetchedImage>().ok());
        // Reuse only images of this deserializer: the label's size depends on it.
        let used = used.filter(|used| Arc::ptr_eq(&used.common, &common));
        let mut fetched = used.unwrap_or_else(|| {
            Box::new(FetchedImage {
                common: Arc::clone(&common),
                origin: None,
                options,
                identity: Identity::default(),
                stage: Stage::Invalid,
                failure: None,
                file: Vec::new(),
                image: Image::default(),
                plan: Plan::default(),
                shape: [0; 3],
                label: Label::new(&common),
                draws: Draws::new(common.streams.get(2).map_or(ElementType::Float, |draws| draws.element)),
                held: Held::default(),
            })
        });
        (fetched.identity, fetched.options, fetched.origin) = (identity, options, Some(origin));
        let FetchedImage { file, image, .. } = &mut *fetched;
        let read = common.workers.with(|worker| read(worker, Content { file, image }));
        let (label, read) = read.map_err(|error| fetched.locate(error))?;
        fetched.label.set(label);
        fetched.stage = match read {
            Read::Encoded(header) => Stage::Encoded(header),
            Read::Decoded => Stage::Decoded,
            Read::Invalid(failure) => {
                fetched.fail(failure);
                Stage::Invalid
            }
        };
        Ok(fetched)
    })
}

impl FetchedImage {
    fn locate(&self, error: Error) -> Error {
        let name = &self.common.streams[0].name;
        match &self.origin {
            Some(origin) => origin.locate(self.identity.number, error).in_stream(name),
            None => error,
        }
    }

    /// Marks the image as skipped, for the reason given.
    fn fail(&mut self, error: Option<Error>) {
        self.stage = Stage::Invalid;
        // CNTK 2.7 skips Base64 images too.
        let ends_alone = self.origin.as_ref().is_some_and(|origin| origin.ends_alone());
        self.failure = error.map(|error| Failure { error: self.locate(error), ends_alone });
    }

    /// Decodes and transforms the image. Returns the reason if it is skipped.
    fn decode_and_transform(&mut self) -> Result<Option<Error>> {
        let FetchedImage { common, origin, options, stage, file, image, plan, .. } = self;
        let number = self.identity.number;
        common.workers.with(|worker| {
            let region = plan.region();
            match stage {
                Stage::Encoded(_) => {
                    // The image may still hold the preceding image's floating-point values.
                    worker.scratch.reclaim(image);
                    let decoded = worker.decoder.decode(file, options, region, image);
                    match (decoded, origin) {
                        (Ok(()), Some(origin)) => {
                            if let Some(damage) = worker.decoder.damage() {
                                origin.damaged(number, &damage);
                            }
                        }
                        (Ok(()), None) => {}
                        (Err(cause), Some(origin)) if !cause.is_memory => {
                            let error = origin.broken(number, cause);
                            return origin.leave_out(number, error).map(Some);
                        }
                        (Err(cause), Some(origin)) => return Err(origin.broken(number, cause)),
                        (Err(cause), None) => return Err(cause.into_error()),
                    }
                }
                Stage::Decoded => cut(image, region)?,
                Stage::Invalid => return Err(Error::internal("An invalid image is prepared.")),
            }
            common.chain.apply(plan, image, &mut worker.scratch).map(|()| None)
        })
    }
}

impl FetchedData for FetchedImage {
    fn is_valid(&self) -> bool {
        self.stage != Stage::Invalid
    }

    fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Decodes the whole image, not only the part that the transforms needed.
    fn damage(&self) -> Option<String> {
        let FetchedImage { common, options, file, .. } = self;
        common.workers.with(|worker| {
            let header = worker.decoder.header(file, options).ok()?;
            let whole = Region::whole(header.width, header.height);
            match worker.decoder.decode(file, options, whole, &mut Image::default()) {
                Ok(()) => worker.decoder.damage(),
                Err(_) => None,
            }
        })
    }

    fn plan(&mut self, position: u32, sweep: u64) -> Result<()> {
        let (width, height, channels) = match self.stage {
            Stage::Encoded(Header { width, height, channels }) => (width, height, channels),
            Stage::Decoded => (self.image.width, self.image.height, self.image.channels),
            Stage::Invalid => return Err(Error::internal("An invalid image is planned.")),
        };
        let Identity { copy, key, .. } = self.identity;
        let key = self.origin.as_ref().map_or(key, |origin| origin.lasting_number(key));
        let draw = Draw { slot: position, copy, identity: (sweep, key) };
        let info = ImageInfo::decoded(width, height, channels);
        let planned = self.common.chain.plan(draw, info, &mut self.plan);
        planned.map_err(|error| self.locate(error))?;
        self.shape = self.plan.result().shape();
        self.draws.set(&self.plan.drawn());
        Ok(())
    }

    fn prepare(&mut self, _position: u32) -> Result<()> {
        let left_out = self.decode_and_transform().map_err(|error| self.locate(error))?;
        if left_out.is_some() {
            self.fail(left_out);
        }
        let bytes = self.file.capacity() + pixel_bytes(&self.image.pixels);
        self.held.update(&self.common.meter, bytes);
        Ok(())
    }

    fn view(&self, stream: usize) -> Loaded<'_> {
        match stream {
            0 => {}
            1 => return Loaded::Data(self.label.view()),
            _ => {
                let (values, form) = (self.draws.bytes(), ValueForm::Whole);
                return Loaded::Data(SequenceView { samples: 1, values, form, kind: ViewKind::Dense });
            }
        }
        let Some((values, form)) = self.image.pixels.stored(self.common.streams[0].element) else {
            return Loaded::Invalid;
        };
        Loaded::Data(SequenceView { samples: 1, values, form, kind: ViewKind::Dense })
    }

    fn shape(&self, stream: usize) -> Option<&[usize]> {
        match stream {
            0 => Some(&self.shape),
            _ => self.common.streams.get(stream).map(|stream| stream.shape.as_slice()),
        }
    }

    /// In CNTK 2.7 label sequences have no keys, which shows in truncated minibatches.
    fn key(&self, stream: usize) -> Option<SequenceKey> {
        Some(if stream == 0 { self.identity.key } else { 0 })
    }

    fn release(&mut self) {
        self.origin = None;
        self.failure = None;
        self.stage = Stage::Invalid;
    }
}

/// Returns the memory use of an image's values in bytes.
fn pixel_bytes(pixels: &Pixels) -> usize {
    match pixels {
        Pixels::Bytes(values) => values.capacity(),
        Pixels::Floats(values) => values.capacity() * size_of::<f32>(),
        Pixels::Doubles(values) => values.capacity() * size_of::<f64>(),
    }
}

/// Crops an image of bytes in place.
fn cut(image: &mut Image, region: Region) -> Result<()> {
    let Image { width, height, channels, pixels: Pixels::Bytes(pixels), .. } = image else {
        return Err(Error::internal("A decoded image does not consist of bytes."));
    };
    if region == Region::whole(*width, *height) {
        return Ok(());
    }
    let [size, left, top, columns, rows] =
        [*channels, region.left, region.top, region.width, region.height].map(|number| number as usize);
    let (row, part) = (*width as usize * size, columns * size);
    let is_within = left + columns <= *width as usize && top + rows <= *height as usize;
    if !is_within || pixels.len() != row * *height as usize {
        return Err(Error::internal("A part of an image lies outside of it."));
    }
    for to in 0..rows {
        let from = (top + to) * row + left * size;
        pixels.copy_within(from..from + part, to * part);
    }
    pixels.truncate(rows * part);
    (*width, *height) = (region.width, region.height);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_cropped_in_place() {
        let pixels = (0..4 * 3 * 2).collect();
        let mut image =
            Image { width: 4, height: 3, channels: 2, planar: false, pixels: Pixels::Bytes(pixels) };
        let whole = image.clone();
        cut(&mut image, Region::whole(4, 3)).expect("all of it");
        assert_eq!(image, whole);
        cut(&mut image, Region { left: 1, top: 1, width: 2, height: 2 }).expect("a part");
        let expected = Pixels::Bytes(vec![10, 11, 12, 13, 18, 19, 20, 21]);
        assert_eq!((image.width, image.height, &image.pixels), (2, 2, &expected));
        assert!(cut(&mut image, Region { left: 1, top: 0, width: 2, height: 1 }).is_err());
    }

    #[test]
    fn dense_label_sets_one_class() {
        let mut label = Label::Dense(vec![0; 3].into(), 0);
        for class in [2, 2, 0, 1] {
            label.set(class);
            let expected: Vec<u8> = (0..3).map(|other| u8::from(other == class)).collect();
            assert_eq!(label.view().values, expected);
        }
    }
}
