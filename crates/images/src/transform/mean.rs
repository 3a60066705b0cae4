//! `Mean`: subtracts a mean image from each image.

use super::pixels::{Memory, Real, Value, for_pixels};
use super::storage::{self, Matrix};
use super::view::View;
use cntk_reader_core::cpu::processor::{InstructionSet, Processor, dispatch};
use cntk_reader_core::image::ImageInfo;
use cntk_reader_core::runtime::log::Repeated;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};

/// A mean image.
pub(super) struct Mean {
    file: String,
    width: u64,
    height: u64,
    channels: u64,
    values: Values,
    /// Counts images of a different size.
    others: Repeated,
}

/// The values, in the type declared by the file if images can have it.
enum Values {
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    /// A type that no stream has.
    Other(&'static str),
}

impl Mean {
    /// Reads a mean image from a file: `MeanImg`, and its size from `Channel`, `Row` and `Col`.
    pub fn open(file: &str) -> Result<Mean> {
        let storage = storage::read(file)?;
        // A missing number counts as 0, which is never valid.
        let number = |name| storage.number(name).unwrap_or(0.0);
        let numbers = [number("Channel"), number("Row"), number("Col")];
        let (Some(matrix), true) = (storage.matrix("MeanImg")?, numbers.iter().all(|&number| number >= 1.0))
        else {
            let detail =
                "'Channel', 'Row' and 'Col', each at least 1, and the matrix 'MeanImg' were expected.";
            return Err(storage::invalid_data("Invalid data in file", file).with_detail(detail));
        };
        let [channels, height, width] = numbers.map(|number| number as u64);
        let size = channels.checked_mul(height).and_then(|size| size.checked_mul(width));
        if size != Some(matrix.values.len() as u64) {
            let detail = format!(
                "'MeanImg' has {} values, but 'Channel' times 'Row' times 'Col' is {channels} times {height} times {width}.",
                matrix.values.len()
            );
            return Err(storage::invalid_data("Invalid data in file", file).with_detail(detail));
        }
        let values = Values::of(matrix);
        Ok(Mean {
            file: file.to_owned(),
            width,
            height,
            channels,
            values,
            others: Repeated::new("images of a different size, from which it was not subtracted"),
        })
    }

    /// Returns whether the mean is subtracted from an image. Images of a different size stay
    /// unchanged (CNTK 2.7 warns about each).
    pub fn applies(&self, image: &ImageInfo, element: ElementType) -> Result<bool> {
        if (u64::from(image.width), u64::from(image.height)) != (self.width, self.height) {
            self.warn(image);
            return Ok(false);
        }
        if u64::from(image.channels) != self.channels {
            let message = format!(
                "The mean image has {} channels, but this image has {}.",
                self.channels, image.channels
            );
            let advice =
                "Make the mean image from images that are decoded in the same way, gray or in color.";
            return Err(Error::data(message).with_detail(advice).in_file(&self.file));
        }
        match (&self.values, element) {
            (Values::Floats(_), ElementType::Float) | (Values::Doubles(_), ElementType::Double) => Ok(true),
            (values, _) => {
                let (found, precision, wanted) = match element {
                    ElementType::Double => (values.name(), "double", "d"),
                    _ => (values.name(), "float", "f"),
                };
                let message = format!(
                    "The values of the mean image have the type {found}, but the reader's precision is {precision}."
                );
                let advice = format!("Write 'MeanImg' with <dt>{wanted}</dt>, or set the other ‹precision›.");
                Err(Error::data(message).with_detail(advice).in_file(&self.file))
            }
        }
    }

    fn warn(&self, image: &ImageInfo) {
        // CNTK's two lines, followed by the details that they omit.
        self.others.warn(|| {
            vec![
                "Mean file does not match the size of the input image, will be ignored.".to_owned(),
                "Please remove mean transformation from the config.".to_owned(),
                format!(
                    "The mean image in '{}' has {}x{} pixels, but an image has {}x{}. Scale images to the size of the mean image first.",
                    self.file, self.width, self.height, image.width, image.height
                ),
            ]
        });
    }

    /// Reports the number of images of a different size.
    pub fn summarize(&self) {
        self.others.summarize(&self.file);
    }

    /// Subtracts the mean from an image to which it [applies](Mean::applies). An image that already
    /// has the stream's type is changed in place (CNTK 2.7).
    pub fn apply(&self, view: &mut View<'_>, memory: &mut Memory) -> Result<()> {
        match &self.values {
            Values::Floats(mean) => subtract_from(mean, view, memory),
            Values::Doubles(mean) => subtract_from(mean, view, memory),
            Values::Other(_) => Ok(()),
        }
    }
}

impl Values {
    fn of(matrix: Matrix) -> Values {
        match matrix.element {
            b'f' => Values::Floats(matrix.values.iter().map(|&value| value as f32).collect()),
            b'd' => Values::Doubles(matrix.values),
            b'u' => Values::Other("u (8 bits, unsigned)"),
            b'c' => Values::Other("c (8 bits, signed)"),
            b'w' => Values::Other("w (16 bits, unsigned)"),
            b's' => Values::Other("s (16 bits, signed)"),
            _ => Values::Other("i (32 bits, signed)"),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Values::Floats(_) => "f (float)",
            Values::Doubles(_) => "d (double)",
            Values::Other(name) => name,
        }
    }
}

fn subtract_from<T: Real>(mean: &[T], view: &mut View<'_>, memory: &mut Memory) -> Result<()> {
    view.settle_for::<T>();
    let (processor, rows) = (Processor::detect(), view.rows());
    for_pixels!(&view.image.pixels, values => {
        let mut out = memory.take(mean.len())?;
        let (mut means, mut results) = (mean, out.as_mut_slice());
        for row in rows.clone() {
            let (mean, result);
            (mean, means) = means.split_at(row.len());
            (result, results) = results.split_at_mut(row.len());
            subtract(processor, &values[row], mean, result);
        }
        view.store(out, rows, memory);
    });
    Ok(())
}

dispatch! {
    fn subtract<V: Value, T: Real>(values: &[V], mean: &[T], out: &mut [T]) = subtract_with;
}

#[inline(always)]
fn subtract_with<V: Value, T: Real, S: InstructionSet>(_: S, values: &[V], mean: &[T], out: &mut [T]) {
    for ((out, &value), &mean) in out.iter_mut().zip(values).zip(mean) {
        *out = value.to::<T>() - mean;
    }
}
