//! Single transforms, for hosts that manage images and chains themselves.
//!
//! Such a host passes an image from one transform to the next. To give the same results as a
//! [`Chain`], the image returned by a transform remembers the larger image of which it is a view:
//! padding reads its border from there, and `Color` and `Intensity` change it (CNTK 2.7).

use super::pixels::{Value, for_pixels};
use super::{Chain, Draw, Plan, Scratch};
use crate::transform::TransformOptions;
use cntk_reader_core::Result;
use cntk_reader_core::image::{Depth, Image, ImageInfo, Pixels, Region};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::stream::ElementType;

/// A single transform.
pub struct SingleTransform {
    chain: Chain,
    /// The reader's element type.
    element: ElementType,
    /// Its results always have the reader's type: `Transpose` and `Cast`.
    widens: bool,
    /// Idle working memory.
    idle: Mutex<Vec<WorkingMemory>>,
}

/// Reusable working memory for one thread.
#[derive(Default)]
struct WorkingMemory {
    plan: Plan,
    scratch: Scratch,
}

/// The result of a transform.
pub struct TransformedImage {
    /// The larger image of which it is a part.
    whole: Image,
    window: Region,
    /// Crops of it remain views.
    keeps_views: bool,
    /// A copy of the part, unless it is the whole larger image.
    part: Option<Image>,
}

impl TransformedImage {
    /// Returns the image.
    pub fn image(&self) -> &Image {
        self.part.as_ref().unwrap_or(&self.whole)
    }
}

impl SingleTransform {
    /// Creates the transform and reads the file that it names.
    pub fn new(options: TransformOptions, element: ElementType) -> Result<SingleTransform> {
        let widens = matches!(options, TransformOptions::Transpose | TransformOptions::Cast);
        let chain = Chain::new(&[options], &[], element, false)?.in_cntks_place(true);
        Ok(SingleTransform { chain, element, widens, idle: Mutex::default() })
    }

    /// Returns the reader's element type.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Returns the shape of the transformed samples, if it is fixed, given the shape before.
    pub fn shape(&self, before: Option<[usize; 3]>) -> Option<[usize; 3]> {
        self.chain.shape(before)
    }

    /// Transforms an image of the host. `copy` returns a copy of the required region.
    pub fn apply(
        &self,
        draw: Draw,
        image: ImageInfo,
        copy: impl FnOnce(Region) -> Result<Image>,
    ) -> Result<TransformedImage> {
        let window = Region::whole(image.width, image.height);
        // CNTK treats bytes as a decoder's image, whose crops are views, and other values as
        // samples, which are copied.
        self.apply_to(draw, image, window, image.depth == Depth::Byte, copy)
    }

    /// Transforms the result of another transform.
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
        let WorkingMemory { plan, scratch } = &mut work;
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

/// Copies a part of an image. For planar images, the region must be the whole image.
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

/// Converts an image's values to `element`.
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

        /// Consecutive single transforms must match a chain.
        #[test]
        fn single_transforms_match_a_chain(
            transforms in prop::collection::vec(transform(), 1..6),
            (width, height) in (1u32..14, 1u32..14),
            channels in prop::sample::select(&[1u32, 3][..]),
        ) {
            let (options, of) = (options(&transforms), ImageInfo::decoded(width, height, channels));
            let chain = Chain::new(&options, &[], ElementType::Float, false).expect("a chain");
            let mut plan = Plan::default();
            // Some scales do not fit the image size.
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
            // The number of channels declared by the last scale is known only to the stream's
            // packer or cast.
            let last = last.expect("a transform").image().clone();
            prop_assert_eq!((last.width, last.height), (at_once.width, at_once.height));
            let mut pixels = last.pixels;
            pixels.truncate(at_once.info().values());
            prop_assert_eq!(pixels, at_once.pixels, "{:?}", transforms);
        }
    }
}
