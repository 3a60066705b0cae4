//! `Intensity`: random shifts of the channels along the principal components of the colors.

use super::color::bounded;
use super::gaussian;
use super::pixels::{Memory, Real, Value, for_pixels};
use super::random::RandomSource;
use super::storage;
use super::view::View;
use crate::transform::IntensityOptions;
use cntk_reader_core::Result;
use cntk_reader_core::cpu::processor::{InstructionSet, Processor, dispatch};

/// Standard deviation and principal components.
pub(super) struct Intensity {
    deviation: f32,
    values: [f32; 3],
    vectors: [[f32; 3]; 3],
}

impl Intensity {
    /// Reads the components. `None` if the options disable the transform.
    pub fn open(options: &IntensityOptions) -> Result<Option<Intensity>> {
        let Some(file) = options.file.as_deref().filter(|_| options.std_dev != 0.0) else {
            return Ok(None);
        };
        let storage = storage::read(file)?;
        let matrix = |name, rows, columns| {
            let found = storage.matrix(name)?.filter(|matrix| {
                (matrix.rows, matrix.columns, matrix.channels, matrix.element) == (rows, columns, 1, b'f')
            });
            found.ok_or_else(|| {
                let detail = format!(
                    "A matrix '{name}' with {rows} rows and {columns} columns, one channel and type f was expected."
                );
                storage::invalid_data(&format!("Invalid {name} data in file"), file).with_detail(detail)
            })
        };
        let (values, vectors) = (matrix("EigVal", 1, 3)?.values, matrix("EigVec", 3, 3)?.values);
        let at = |values: &[f64], i: usize| values.get(i).map_or(0.0, |&value| value as f32);
        Ok(Some(Intensity {
            deviation: options.std_dev as f32,
            values: [0, 1, 2].map(|i| at(&values, i)),
            vectors: [0, 1, 2].map(|row| [0, 1, 2].map(|i| at(&vectors, 3 * row + i))),
        }))
    }

    /// Draws the shifts of red, green and blue.
    pub fn plan(&self, source: &mut impl RandomSource) -> [f32; 3] {
        let amounts = self.values.map(|value| gaussian::draw(source) * self.deviation * value);
        self.vectors.map(|vector| {
            let products =
                vector.iter().zip(amounts).map(|(&part, amount)| f64::from(part) * f64::from(amount));
            products.fold(0.0, |sum, product| sum + product) as f32
        })
    }
}

/// Length of the repeated shifts: a multiple of the channel count of nearly every image.
const PERIOD: usize = 48;

/// Shifts the channels of an image: the last one, red or gray, by the first number, and so on.
pub(super) fn apply<T: Real>(shifts: &[f32; 3], view: &mut View<'_>, memory: &mut Memory) -> Result<()> {
    view.settle_for::<T>();
    let (channels, run) = (view.image.channels as usize, view.run());
    let shift_of =
        |channel: usize| shifts.get(channels - 1 - channel).map_or(T::default(), |&shift| T::from_f32(shift));
    for_pixels!(&view.image.pixels, values => {
        let values = &values[run.clone()];
        let mut out = memory.take(values.len())?;
        if PERIOD.is_multiple_of(channels) {
            let mut shifts = [T::default(); PERIOD];
            shifts.iter_mut().enumerate().for_each(|(i, shift)| *shift = shift_of(i % channels));
            shift(Processor::detect(), values, &shifts, &mut out);
        } else {
            let pixels = out.chunks_exact_mut(channels).zip(values.chunks_exact(channels));
            for (out, pixel) in pixels {
                for (channel, (out, &value)) in out.iter_mut().zip(pixel).enumerate() {
                    *out = bounded(value.to::<T>() + shift_of(channel));
                }
            }
        }
        view.store(out, std::iter::once(run), memory);
    });
    Ok(())
}

dispatch! {
    fn shift<V: Value, T: Real>(values: &[V], shifts: &[T; PERIOD], out: &mut [T]) = shift_with;
}

#[inline(always)]
fn shift_with<V: Value, T: Real, S: InstructionSet>(_: S, values: &[V], shifts: &[T; PERIOD], out: &mut [T]) {
    for (out, values) in out.chunks_mut(PERIOD).zip(values.chunks(PERIOD)) {
        for ((out, &value), &shift) in out.iter_mut().zip(values).zip(shifts) {
            *out = bounded(value.to::<T>() + shift);
        }
    }
}
