//! The transform `Normalize`: the order of channels, and a mean and a deviation for each.

use cntk_reader_core::format::user::transform::UserTransform;
use cntk_reader_core::image::{Depth, Image, ImageInfo, PixelOrder, Pixels};
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};

/// Whether channels are reversed; the divisor, mean and deviation of each channel, or of all. No
/// numbers: values stay as they are.
pub type Numbers = (bool, Vec<(f32, f32, f32)>);

/// The transform.
pub struct Normalize {
    is_reversed: bool,
    channels: Vec<Channel>,
}

/// A channel of the result.
struct Channel {
    divisor: f32,
    mean: f32,
    deviation: f32,
    /// The results for bytes.
    of_bytes: [f32; 256],
}

impl Channel {
    fn new((divisor, mean, deviation): (f32, f32, f32)) -> Channel {
        let mut channel = Channel { divisor, mean, deviation, of_bytes: [0.0; 256] };
        channel.of_bytes = std::array::from_fn(|byte| channel.of(byte as f32));
        channel
    }

    fn of(&self, value: f32) -> f32 {
        (value / self.divisor - self.mean) / self.deviation
    }
}

impl Normalize {
    /// Creates the transform.
    pub fn new((is_reversed, channels): Numbers) -> Normalize {
        Normalize { is_reversed, channels: channels.into_iter().map(Channel::new).collect() }
    }

    /// Calls `work` for each value, with the channel of the result, in the result's order.
    fn each<V: Copy>(
        &self,
        values: &[V],
        count: usize,
        work: impl Fn(&Channel, V) -> f32,
    ) -> Result<Vec<f32>> {
        let mut made = room::with_capacity(values.len(), room::IMAGE)?;
        let channel = |place: usize| self.channels.get(place).or(self.channels.first());
        for pixel in values.chunks_exact(count) {
            for place in 0..count {
                let source = if self.is_reversed { count - 1 - place } else { place };
                if let (Some(channel), Some(&value)) = (channel(place), pixel.get(source)) {
                    made.push(work(channel, value));
                }
            }
        }
        Ok(made)
    }
}

impl UserTransform for Normalize {
    fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
        let (channels, numbers) = (image.channels as usize, self.channels.len());
        if image.order == PixelOrder::Planar {
            return Err(Error::user("Normalize follows Transpose.").with_detail("Put it before Transpose."));
        }
        if numbers > 1 && numbers != channels {
            let message =
                format!("Normalize has numbers for {numbers} channels, but the images have {channels}.");
            let detail = "Pass a number for each channel, or one for all.";
            return Err(Error::user(message).with_detail(detail));
        }
        let depth = if numbers == 0 { image.depth } else { Depth::Element(ElementType::Float) };
        Ok(ImageInfo { depth, ..image })
    }

    #[expect(clippy::cast_possible_truncation, reason = "the result has single precision")]
    fn apply(&self, image: &mut Image, _random: u64) -> Result<()> {
        let count = (image.channels as usize).max(1);
        if self.channels.is_empty() {
            if self.is_reversed {
                match &mut image.pixels {
                    Pixels::Bytes(values) => values.chunks_exact_mut(count).for_each(<[_]>::reverse),
                    Pixels::Floats(values) => values.chunks_exact_mut(count).for_each(<[_]>::reverse),
                    Pixels::Doubles(values) => values.chunks_exact_mut(count).for_each(<[_]>::reverse),
                }
            }
            return Ok(());
        }
        image.pixels = Pixels::Floats(match &image.pixels {
            Pixels::Bytes(values) => {
                self.each(values, count, |channel, byte| channel.of_bytes[usize::from(byte)])
            }
            Pixels::Floats(values) => self.each(values, count, Channel::of),
            Pixels::Doubles(values) => self.each(values, count, |channel, value| channel.of(value as f32)),
        }?);
        Ok(())
    }

    fn shape(&self, before: Option<[usize; 3]>) -> Option<[usize; 3]> {
        before
    }
}
