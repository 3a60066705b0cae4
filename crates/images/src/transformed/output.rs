//! Transformed data of a sequence in one stream.

use super::Target;
use crate::transform::{Draw, Plan, Scratch};
use cntk_reader_core::format::Chunk;
use cntk_reader_core::format::fetched::Fetched;
use cntk_reader_core::image::{Depth, Image, ImageInfo, PixelOrder, Pixels, Region};
use cntk_reader_core::memory::compact::widen;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{Loaded, ValueForm, ViewKind};
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};

/// The transformed data of a sequence in one stream.
#[derive(Default)]
pub(super) struct Output {
    pub samples: u32,
    /// Size and type of the original samples.
    before: Option<ImageInfo>,
    /// Size and type of the transformed samples.
    pub after: Option<ImageInfo>,
    /// One plan per sample, plus unused ones left from longer sequences.
    plans: Vec<Plan>,
    pub values: Pixels,
    pub shape: [usize; 3],
}

/// Returns a sample's shape and type as image information.
fn info_of(shape: [usize; 3], element: ElementType) -> Result<ImageInfo> {
    let [channels, width, height] =
        shape.map(|dimension| u32::try_from(dimension).ok().filter(|&size| size > 0));
    match (width, height, channels) {
        (Some(width), Some(height), Some(channels)) => Ok(ImageInfo {
            width,
            height,
            channels,
            depth: Depth::of(element),
            order: PixelOrder::Interleaved,
        }),
        _ => {
            let message = format!("A sample of the shape {shape:?} is not an image.");
            Err(Error::data(message)
                .with_detail("Channels, columns and rows were expected, each at least 1."))
        }
    }
}

impl Output {
    /// Draws the random parameters of each sample. `id` is the sequence's key.
    pub fn plan(
        &mut self,
        target: &Target,
        inner: &Fetched,
        slot: u32,
        (sweep, id): (u64, u64),
    ) -> Result<()> {
        let shape = match (target.before, inner.shape(target.number)) {
            (Some(shape), _) => shape,
            (None, Some(&[channels, width, height])) => [channels, width, height],
            (None, shape) => {
                let message = format!("A sample has the shape {:?}.", shape.unwrap_or_default());
                return Err(Error::data(message)
                    .with_detail("Expected three dimensions: channels, columns and rows."));
            }
        };
        let before = info_of(shape, target.element)?;
        let samples = match inner.sequence(target.number, 0) {
            Loaded::Data(view) => view.samples,
            Loaded::Skipped | Loaded::Invalid => {
                return Err(Error::internal("A sequence without data is planned."));
            }
        };
        (self.samples, self.before, self.after) = (samples, Some(before), None);
        if self.plans.len() < samples as usize {
            self.plans.resize_with(samples as usize, Plan::default);
        }
        for (sample, plan) in (0..samples).zip(&mut self.plans) {
            // A different number for each sample, spread far apart.
            let identity = (sweep, id.wrapping_add(u64::from(sample).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            target.chain.plan(Draw { slot, copy: 0, identity }, before, plan)?;
            let after = plan.result();
            match self.after {
                Some(first) if first.shape() != after.shape() => {
                    let message = "Packer currently does not support samples with varying shapes.Please make sure there \
                                   is a transform that unifies the shape of samples for input stream";
                    let found = format!(
                        "Two samples of one sequence have the shapes {:?} and {:?}; a 'Scale' makes them equal.",
                        first.shape(),
                        after.shape()
                    );
                    return Err(Error::data(format!("{message} '{}'.", target.name))
                        .as_cntk()
                        .with_detail(found));
                }
                _ => self.after = Some(after),
            }
            self.shape = after.shape();
        }
        Ok(())
    }

    /// Transforms each sample as planned.
    pub fn apply(
        &mut self,
        target: &Target,
        inner: &Fetched,
        image: &mut Image,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (Loaded::Data(view), Some(before)) = (inner.sequence(target.number, 0), self.before) else {
            return Err(Error::internal("A sequence was not planned."));
        };
        if !matches!(view.kind, ViewKind::Dense) {
            return Err(Error::internal("A sequence of a dense stream is not dense."));
        }
        let size = view.form.size(target.element.size());
        if view.samples != self.samples || view.values.len() != before.values() * size * view.samples as usize
        {
            let message =
                format!("A sequence has {} bytes of values in {} samples.", view.values.len(), view.samples);
            let ImageInfo { width, height, channels, .. } = before;
            let expected =
                format!("Expected {channels} x {width} x {height} values of {size} bytes in each sample.");
            return Err(Error::data(message).with_detail(expected));
        }
        let samples = view.values.chunks_exact((before.values() * size).max(1));
        for (number, (sample, plan)) in samples.zip(&self.plans).enumerate() {
            load(image, sample, view.form, target.element, before, plan.region())?;
            target.chain.apply(plan, image, scratch)?;
            match number {
                0 => std::mem::swap(&mut self.values, &mut image.pixels),
                _ => append(&mut self.values, &image.pixels)?,
            }
        }
        Ok(())
    }
}

/// Loads a region of a sample into an image.
fn load(
    image: &mut Image,
    sample: &[u8],
    form: ValueForm,
    element: ElementType,
    of: ImageInfo,
    region: Region,
) -> Result<()> {
    let (channels, size) = (of.channels as usize, form.size(element.size()));
    let row = of.width as usize * channels * size;
    let (from, part) = (region.left as usize * channels * size, region.width as usize * channels);
    let rows = sample.chunks_exact(row.max(1)).skip(region.top as usize).take(region.height as usize);
    let rows = rows.map(|row| row.get(from..from + part * size).unwrap_or_default());
    (image.width, image.height, image.channels) = (region.width, region.height, of.channels);
    image.planar = false;
    let values = part * region.height as usize;
    match element {
        ElementType::UInt8 => {
            let mut bytes = match std::mem::take(&mut image.pixels) {
                Pixels::Bytes(bytes) => bytes,
                _ => Vec::new(),
            };
            bytes.clear();
            room::reserve(&mut bytes, values, room::IMAGE)?;
            rows.for_each(|row| bytes.extend_from_slice(row));
            image.pixels = Pixels::Bytes(bytes);
        }
        ElementType::Double => {
            let mut doubles = match std::mem::take(&mut image.pixels) {
                Pixels::Doubles(doubles) => doubles,
                _ => Vec::new(),
            };
            doubles.clear();
            room::reserve(&mut doubles, values, room::IMAGE)?;
            rows.for_each(|row| extend(&mut doubles, row, form, f64::from_ne_bytes));
            image.pixels = Pixels::Doubles(doubles);
        }
        _ => {
            let mut floats = match std::mem::take(&mut image.pixels) {
                Pixels::Floats(floats) => floats,
                _ => Vec::new(),
            };
            floats.clear();
            room::reserve(&mut floats, values, room::IMAGE)?;
            rows.for_each(|row| extend(&mut floats, row, form, f32::from_ne_bytes));
            image.pixels = Pixels::Floats(floats);
        }
    }
    Ok(())
}

/// Appends stored values, converted to their type of `N` bytes.
fn extend<const N: usize, T>(values: &mut Vec<T>, row: &[u8], form: ValueForm, value: impl Fn([u8; N]) -> T) {
    if form == ValueForm::Whole {
        values.extend(row.as_chunks::<N>().0.iter().map(|bytes| value(*bytes)));
        return;
    }
    for stored in row.chunks_exact(form.size(N).max(1)) {
        let mut bytes = [0; N];
        widen::values(&mut bytes, stored, form, N);
        values.push(value(bytes));
    }
}

/// Appends the values of another sample.
fn append(values: &mut Pixels, more: &Pixels) -> Result<()> {
    match (values, more) {
        (Pixels::Bytes(values), Pixels::Bytes(more)) => values.extend_from_slice(more),
        (Pixels::Floats(values), Pixels::Floats(more)) => values.extend_from_slice(more),
        (Pixels::Doubles(values), Pixels::Doubles(more)) => values.extend_from_slice(more),
        _ => return Err(Error::internal("Two samples of a sequence have values of different types.")),
    }
    Ok(())
}
