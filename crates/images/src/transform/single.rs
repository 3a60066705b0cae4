//! Transforms one by one, for hosts that have images and chains of their own.
//!
//! Such a host takes an image from one transform and gives it to the next one. So that the next one finds what it would find in a
//! [`Chain`], an image that a transform has made remembers the larger image that it is a view of: padding takes its border from
//! there, and `Color` and `Intensity` change it (CNTK 2.7).

use super::pixels::{Value, for_pixels};
use super::{Chain, Draw, Plan, Scratch};
use crate::transform::TransformOptions;
use cntk_reader_core::Result;
use cntk_reader_core::image::{Depth, Image, ImageInfo, Pixels, Region};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::stream::ElementType;

/// A transform on its own.
pub struct SingleTransform {
    chain: Chain,
    /// The reader's type.
    element: ElementType,
    /// Its images have values of the reader's type, whatever they were before: `Transpose` and `Cast`.
    widens: bool,
    /// Memory that is not in use.
    idle: Mutex<Vec<Work>>,
}

/// Memory that one application after the other uses.
#[derive(Default)]
struct Work {
    plan: Plan,
    scratch: Scratch,
}

/// An image that a transform has made.
pub struct TransformedImage {
    /// The larger image, of which it is a part.
    whole: Image,
    window: Region,
    /// What is cropped of it stays a view.
    keeps_views: bool,
    /// The part as an image, unless it is all of the larger one.
    part: Option<Image>,
}

impl TransformedImage {
    /// The image.
    pub fn image(&self) -> &Image {
        self.part.as_ref().unwrap_or(&self.whole)
    }
}

impl SingleTransform {
    /// Makes the transform; reads the file that it names.
    pub fn new(options: TransformOptions, element: ElementType) -> Result<SingleTransform> {
        let widens = matches!(options, TransformOptions::Transpose | TransformOptions::Cast);
        let chain = Chain::new(&[options], &[], element, false)?.in_cntks_place(true);
        Ok(SingleTransform { chain, element, widens, idle: Mutex::default() })
    }

    /// The reader's type.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Shape of the samples after it, if it is fixed, given the shape before it.
    pub fn shape(&self, before: Option<[usize; 3]>) -> Option<[usize; 3]> {
        self.chain.shape(before)
    }

    /// Transforms an image of the host's. `copy` gives a copy of the part that is needed.
    pub fn apply(
        &self,
        draw: Draw,
        image: ImageInfo,
        copy: impl FnOnce(Region) -> Result<Image>,
    ) -> Result<TransformedImage> {
        let window = Region::whole(image.width, image.height);
        // CNTK takes bytes for a decoder's image, of which crops are views, and other values for samples that are copied.
        self.apply_to(draw, image, window, image.depth == Depth::Byte, copy)
    }

    /// Transforms an image that another transform has made.
    pub fn apply_next(&self, draw: Draw, image: &TransformedImage) -> Result<TransformedImage> {
        let TransformedImage { whole, window, keeps_views, .. } = image;
        self.apply_to(draw, whole.info(), *window, *keeps_views, |region| cut(whole, region))
    }

    fn apply_to(
        &self,
        draw: Draw,
        whole: ImageInfo,
        window: Region,
        keeps_views: bool,
        copy: impl FnOnce(Region) -> Result<Image>,
    ) -> Result<TransformedImage> {
        let mut work = self.idle.lock().pop().unwrap_or_default();
        let Work { plan, scratch } = &mut work;
        self.chain.plan_view(draw, whole, window, keeps_views, plan)?;
        let mut whole = copy(plan.region())?;
        let window = self.chain.apply_view(plan, &mut whole, scratch)?;
        self.idle.lock().push(work);
        if self.widens {
            widen(&mut whole, self.element)?;
        }
        let is_all = window == Region::whole(whole.width, whole.height);
        let part = if is_all { None } else { Some(cut(&whole, window)?) };
        Ok(TransformedImage { whole, window, keeps_views, part })
    }
}

/// A copy of a part of an image; of a planar one all of it.
fn cut(image: &Image, region: Region) -> Result<Image> {
    let pixel = image.channels as usize;
    let columns = region.left as usize * pixel..(region.left as usize + region.width as usize) * pixel;
    let (top, rows) = (region.top as usize, region.height as usize);
    let stride = image.width as usize * pixel;
    let count = columns.len() * rows;
    let pixels = for_pixels!(&image.pixels, values => {
        let mut part = room::with_capacity(count, room::IMAGE)?;
        values
            .chunks_exact(stride.max(1))
            .skip(top)
            .take(rows)
            .for_each(|row| part.extend_from_slice(&row[columns.clone()]));
        Value::pixels(part)
    });
    let Image { channels, planar, .. } = *image;
    Ok(Image { width: region.width, height: region.height, channels, planar, pixels })
}

/// Gives the values of an image this type.
fn widen(image: &mut Image, element: ElementType) -> Result<()> {
    image.pixels = match (std::mem::take(&mut image.pixels), element) {
        (Pixels::Bytes(bytes), ElementType::Float) => {
            Pixels::Floats(room::collect(bytes.into_iter().map(f32::from), room::IMAGE)?)
        }
        (Pixels::Bytes(bytes), ElementType::Double) => {
            Pixels::Doubles(room::collect(bytes.into_iter().map(f64::from), room::IMAGE)?)
        }
        (Pixels::Floats(floats), ElementType::Double) => {
            Pixels::Doubles(room::collect(floats.into_iter().map(f64::from), room::IMAGE)?)
        }
        #[expect(clippy::cast_possible_truncation, reason = "single precision is what is asked for")]
        (Pixels::Doubles(doubles), ElementType::Float) => {
            Pixels::Floats(room::collect(doubles.into_iter().map(|value| value as f32), room::IMAGE)?)
        }
        (same, _) => same,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::chain::tests::{image, options, transform};
    use cntk_reader_core::testing::cases;
    use proptest::prelude::*;

    const DRAW: Draw = Draw { slot: 0, copy: 0, identity: (0, 0) };

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, max_global_rejects: 1 << 16, ..ProptestConfig::with_cases(cases(4000)) })]

        /// One after the other, transforms make what they make in a chain.
        #[test]
        fn one_by_one_is_as_in_a_chain(
            transforms in prop::collection::vec(transform(), 1..6),
            (width, height) in (1u32..14, 1u32..14),
            channels in prop::sample::select(&[1u32, 3][..]),
        ) {
            let (options, of) = (options(&transforms), ImageInfo::decoded(width, height, channels));
            let chain = Chain::new(&options, &[], ElementType::Float, false).expect("a chain");
            let mut plan = Plan::default();
            // Some scales fit no image of the size.
            prop_assume!(chain.plan(DRAW, of, &mut plan).is_ok());
            let mut at_once = image(of, plan.region());
            chain.apply(&plan, &mut at_once, &mut Scratch::default()).expect("the planned image");
            let mut last: Option<TransformedImage> = None;
            for options in options {
                let single = SingleTransform::new(options, ElementType::Float).expect("a transform");
                last = Some(match last {
                    None => single.apply(DRAW, of, |region| Ok(image(of, region))).expect("an image"),
                    Some(before) => single.apply_next(DRAW, &before).expect("an image"),
                });
            }
            // The stream's shape has the channels that the last scale says, which only its packer or its cast knows.
            let last = last.expect("a transform").image().clone();
            prop_assert_eq!((last.width, last.height), (at_once.width, at_once.height));
            let mut pixels = last.pixels;
            pixels.truncate(at_once.info().values());
            prop_assert_eq!(pixels, at_once.pixels, "{:?}", transforms);
        }
    }
}
