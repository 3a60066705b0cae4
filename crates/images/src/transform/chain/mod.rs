//! A chain of transforms, and its planning for one image.

use super::crop::Cut;
use super::intensity::Intensity;
use super::mean::Mean;
use super::pixels::{Memory, Real};
use super::plan::{Plan, Planned, Step};
use super::random::{Engines, RandomSource, SplitMix, number_of};
use super::resize::{Resize, Tables};
use super::scale::Fit;
use super::view::{Frame, Maker, View};
use super::{color, crop, intensity, scale, transpose};
use crate::transform::{ColorOptions, CropOptions, ScaleOptions, TransformOptions};
use cntk_reader_core::format::user::transform::UserTransform;
use cntk_reader_core::image::{Depth, Drawn, Image, ImageInfo, PixelOrder, Region};
use cntk_reader_core::limits::MAX_IMAGE_VALUES;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::runtime::log::Repeated;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use std::sync::Arc;

/// The transforms of one stream, in order, followed by a cast to the stream's element type.
pub struct Chain {
    stages: Vec<Stage>,
    /// The identity of each transform in reproducible draws: its kind, and the number of preceding
    /// transforms of that kind.
    kinds: Vec<[u64; 2]>,
    /// See [`Chain::in_cntks_place`].
    as_cntk: bool,
    element: ElementType,
    /// The random engines of each transform. `None`: draws are reproducible and depend on the
    /// sequence alone.
    engines: Option<Mutex<Vec<Engines>>>,
    /// Counts images with more channels than `Scale` declares.
    cut: Repeated,
    /// Counts images that `Color` or `Intensity` receives after a crop.
    cropped: Repeated,
}

/// A transform.
enum Stage {
    Crop(CropOptions),
    Scale(ScaleOptions),
    Mean(Option<Mean>),
    Color(ColorOptions),
    Intensity(Option<Intensity>, u32),
    Transpose,
    Cast,
    User { name: String, transform: Arc<dyn UserTransform>, seed: u32 },
}

/// The identity of an image for its random draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Position of the sequence among the valid ones of the minibatch. CNTK 2.7 has one random
    /// engine per position.
    pub slot: u32,
    /// Number of the view, 0 to 9, in multi-view mode; otherwise 0.
    pub copy: u32,
    /// The sweep, and a number that represents the sequence's key in every run. Reproducible draws
    /// depend on these, the view, and the transform's kind and seed, so all streams of a sequence
    /// share the draws of each kind.
    pub identity: (u64, u64),
}

/// Working memory that is reused from image to image. Not shared between threads.
#[derive(Default)]
pub struct Scratch {
    memory: Memory,
    tables: Tables,
}

impl Scratch {
    /// Prepares a transformed image for the decoder: gives it memory for bytes, and keeps the
    /// memory of its floating-point values, if any, for the next image. Without this call every
    /// image allocates them again.
    pub fn reclaim(&mut self, image: &mut Image) {
        self.memory.reclaim(image);
        image.planar = false;
    }
}

impl Chain {
    /// Creates the transforms and reads the files that they name. `users` holds the user-defined
    /// transforms. Fails if a file is unreadable or invalid, or if a user-defined transform is
    /// missing.
    pub fn new(
        options: &[TransformOptions],
        users: &[(String, Arc<dyn UserTransform>)],
        element: ElementType,
        reproducible: bool,
    ) -> Result<Chain> {
        if !element.is_real() && element != ElementType::UInt8 {
            let message = format!(
                "Images can have values of uint8, float32 or float64, but not of {}.",
                element.name()
            );
            let detail = "Set ‹element› to one of them, or remove the transforms of the stream.";
            return Err(Error::argument(message).with_detail(detail));
        }
        let stages = options.iter().map(|options| Stage::new(options, users)).collect::<Result<Vec<_>>>()?;
        if element == ElementType::UInt8
            && let Some(name) = stages.iter().find_map(Stage::with_fractions)
        {
            let message =
                format!("The transform '{name}' makes fractions of pixels, but the stream is uint8.");
            let detail = "Remove it and let the model normalize its input, or set ‹element› to float32.";
            return Err(Error::argument(message).with_detail(detail));
        }
        let engines = || Mutex::new(stages.iter().map(|_| Engines::default()).collect());
        let engines = (!reproducible).then(engines);
        let kinds: Vec<u64> = stages.iter().map(Stage::kind).collect();
        let before = |place: usize| kinds[..place].iter().filter(|&&kind| kind == kinds[place]).count();
        let kinds = (0..kinds.len()).map(|place| [kinds[place], before(place) as u64]).collect();
        Ok(Chain {
            stages,
            kinds,
            as_cntk: false,
            element,
            engines,
            cut: Repeated::new("images with more channels than Scale says"),
            cropped: Repeated::new("images whose last rows 'Color' or 'Intensity' did not change"),
        })
    }

    /// With `as_cntk`, images with more channels than `Scale` declares are delivered as in CNTK
    /// 2.7: as the first values of the image. Otherwise they are an error.
    #[must_use]
    pub(crate) fn in_cntks_place(mut self, as_cntk: bool) -> Chain {
        self.as_cntk = as_cntk;
        self
    }

    /// Returns the number of channels to decode images to: that of the first `Scale`, unless a
    /// user-defined transform precedes it.
    pub(crate) fn channels(&self) -> Option<u32> {
        let first = self.stages.iter().find_map(|stage| match stage {
            Stage::Scale(options) => Some(Some(options.channels)),
            Stage::User { .. } => Some(None),
            _ => None,
        });
        first.flatten()
    }

    /// Returns the shape of the samples, if the transforms fix it, given the shape before them. In
    /// CNTK 2.7 the last `Scale` without a `Crop` after it fixes the shape.
    pub fn shape(&self, before: Option<[usize; 3]>) -> Option<[usize; 3]> {
        self.stages.iter().fold(before, |shape, stage| match stage {
            Stage::Scale(ScaleOptions { width, height, channels, .. }) => {
                Some([*channels, *width, *height].map(|dimension| dimension as usize))
            }
            Stage::Crop(_) => None,
            Stage::Transpose => shape.map(|[channels, width, height]| [width, height, channels]),
            Stage::User { transform, .. } => transform.shape(shape),
            Stage::Mean(_) | Stage::Color(_) | Stage::Intensity(..) | Stage::Cast => shape,
        })
    }

    /// Draws the random parameters for one image. Unless draws are reproducible, they depend on the
    /// order of calls. Fails if the transforms do not fit the image.
    pub fn plan(&self, draw: Draw, image: ImageInfo, plan: &mut Plan) -> Result<()> {
        plan.leaves_view = false;
        plan.keeps_views = image.depth == Depth::Byte;
        self.plan_from(draw, image, Frame::new(Maker::Decoder, image.width, image.height), plan)
    }

    /// Like [`Chain::plan`], for a view of an image that is entirely in memory. All of it is kept
    /// in memory, because later chains may read around the view.
    pub(super) fn plan_view(
        &self,
        draw: Draw,
        whole: ImageInfo,
        window: Region,
        keeps_views: bool,
        plan: &mut Plan,
    ) -> Result<()> {
        (plan.leaves_view, plan.keeps_views) = (true, keeps_views);
        let view = ImageInfo { width: window.width, height: window.height, ..whole };
        let whole = Region::whole(whole.width, whole.height);
        self.plan_from(draw, view, Frame::part(Maker::Decoder, whole, window), plan)
    }

    /// Plans for an image that is already a view, or for the whole decoded image.
    fn plan_from(&self, draw: Draw, mut image: ImageInfo, mut frame: Frame, plan: &mut Plan) -> Result<()> {
        check_size(&image, "An image")?;
        plan.steps.clear();
        plan.channels = image.channels;
        plan.window = frame.window();
        plan.drawn = Drawn::whole(image.width, image.height);
        let mut engines = self.engines.as_ref().map(|engines| engines.lock());
        let mut is_image = image.order == PixelOrder::Interleaved;
        // The number of channels of the stream's shape, if declared.
        let mut declared = None;
        for (place, stage) in self.stages.iter().enumerate() {
            let before = image;
            let step = match engines.as_mut().and_then(|engines| engines.get_mut(place)) {
                Some(engines) => {
                    let mut source = LazyEngine { engines, slot: draw.slot, seed: stage.seed() };
                    stage.plan(&mut source, draw.copy, &mut image, &mut is_image, self.element, plan.drawn)?
                }
                None => {
                    let (sweep, key) = draw.identity;
                    let [kind, before] = self.kinds.get(place).copied().unwrap_or_default();
                    let parts = [stage.seed().into(), kind, before, sweep, key, draw.copy.into()];
                    let mut source = SplitMix::new(&parts);
                    stage.plan(&mut source, draw.copy, &mut image, &mut is_image, self.element, plan.drawn)?
                }
            };
            match stage {
                Stage::Scale(options) => declared = Some(options.channels),
                Stage::Crop(_) | Stage::User { .. } => declared = None,
                _ => {}
            }
            plan.steps.push(Planned { step, cuts_out: false });
            follow_drawn(&mut plan.drawn, (before.width, before.height), &step);
            self.follow(plan, &mut frame, before, image)?;
        }
        if plan.leaves_view {
            frame.need_all();
        }
        plan.make(&frame);
        drop(engines);
        // When CNTK 2.7 packs or transposes an image, it takes the first values, as many as the
        // declared shape holds.
        plan.declared = declared.filter(|&channels| channels < image.channels && !plan.leaves_view);
        if let Some(channels) = plan.declared {
            if !self.as_cntk {
                return Err(scale::other_channels(channels, image.channels));
            }
            self.warn_of_channels(channels, image.channels);
            image.channels = channels;
        }
        if image.depth != Depth::Byte {
            image.depth = self.depth();
        }
        plan.result = image;
        Ok(())
    }

    /// Returns the type of values that transforms compute with.
    fn depth(&self) -> Depth {
        Depth::of(self.element)
    }

    /// Updates the view for the step planned last, and records the pixels that the step reads.
    fn follow(&self, plan: &mut Plan, frame: &mut Frame, before: ImageInfo, after: ImageInfo) -> Result<()> {
        let place = plan.steps.len().saturating_sub(1);
        let Some(&Planned { step, .. }) = plan.steps.last() else { return Ok(()) };
        let is_in_place = before.depth == self.depth();
        let mut is_new = false;
        match step {
            Step::Keep => {}
            Step::Crop(Cut { region, mirrored }) => {
                frame.crop(region);
                if mirrored {
                    frame.need_window();
                }
            }
            Step::Scale(Fit { resize, cut, padding }) => {
                if let Some(Resize { width, height, .. }) = resize {
                    plan.make(frame);
                    *frame = Frame::new(Maker::Resize(place), width, height);
                }
                frame.crop(cut);
                if let Some(padding) = padding {
                    let source = frame.around(padding.before, padding.after);
                    frame.need(source);
                    plan.pad_from(place, source);
                    is_new = true;
                }
            }
            Step::Mean | Step::Color(_) | Step::Intensity(_) if is_in_place => {
                frame.need_window();
                let is_row_by_row = match step {
                    Step::Color(change) => !change.changes_light(),
                    step => matches!(step, Step::Mean),
                };
                if frame.is_broken() && !is_row_by_row {
                    self.warn_of_crop();
                    frame.need_rows();
                    let Region { width, height, .. } = frame.made();
                    check_size(&ImageInfo { width, height, ..before }, "The image that was cropped")?;
                }
            }
            Step::Mean | Step::Color(_) | Step::Intensity(_) => is_new = true,
            Step::Transpose | Step::Cast | Step::User { .. } => is_new = true,
        }
        if !plan.keeps_views && frame.is_part() && !is_new {
            plan.cut_out(place);
            is_new = true;
        }
        if is_new {
            plan.make(frame);
            *frame = Frame::new(Maker::Other, after.width, after.height);
        }
        Ok(())
    }

    /// Transforms an image as planned. May be called from several threads at once. The image must
    /// be the planned region ([`Plan::region`]) of the image. Fails if a user-defined transform
    /// fails.
    pub fn apply(&self, plan: &Plan, image: &mut Image, scratch: &mut Scratch) -> Result<()> {
        self.apply_view(plan, image, scratch).map(drop)
    }

    /// Like [`Chain::apply`], but returns the region of the image that holds the result: the whole
    /// image, unless planned by [`Chain::plan_view`].
    pub(super) fn apply_view(&self, plan: &Plan, image: &mut Image, scratch: &mut Scratch) -> Result<Region> {
        let Region { width, height, .. } = plan.region;
        if (image.width, image.height, image.channels) != (width, height, plan.channels)
            || image.pixels.len() != image.info().values()
            || plan.steps.len() != self.stages.len()
        {
            return Err(Error::internal("An image is not what its transforms were planned for."));
        }
        match self.element {
            ElementType::Double => self.apply_as::<f64>(plan, image, scratch),
            _ => self.apply_as::<f32>(plan, image, scratch),
        }
    }

    fn apply_as<T: Real>(&self, plan: &Plan, image: &mut Image, scratch: &mut Scratch) -> Result<Region> {
        let Scratch { memory, tables } = scratch;
        let mut view = View::new(image, plan.window, plan.region);
        for (stage, Planned { step, cuts_out }) in self.stages.iter().zip(&plan.steps) {
            match (step, stage) {
                (Step::Crop(Cut { region, mirrored }), _) => view.crop(*region, *mirrored),
                (Step::Scale(fit), Stage::Scale(options)) => {
                    scale::apply(options, fit, &mut view, tables, memory)?;
                }
                (Step::Mean, Stage::Mean(Some(mean))) => mean.apply(&mut view, memory)?,
                (Step::Color(change), _) => color::apply::<T>(change, &mut view, memory)?,
                (Step::Intensity(shifts), _) => intensity::apply::<T>(shifts, &mut view, memory)?,
                (Step::Transpose, _) => {
                    let image = view.settle();
                    plan.leave_declared(image);
                    transpose::transpose(image, memory)?;
                }
                (Step::Cast, _) => transpose::cast::<T>(view.settle(), memory)?,
                (Step::User { random, drawn, result }, Stage::User { name, transform, .. }) => {
                    let image = view.settle();
                    transform.apply_drawn(image, *random, drawn)?;
                    check_promise(name, result, image)?;
                    view.restart();
                }
                _ => {}
            }
            if *cuts_out {
                view.settle();
            }
        }
        if plan.leaves_view {
            return Ok(view.place());
        }
        let image = view.settle();
        transpose::cast::<T>(image, memory)?;
        plan.leave_declared(image);
        Ok(Region::whole(image.width, image.height))
    }

    /// Reports the number of images with warnings. `name` is the file or stream of the images.
    pub(crate) fn summarize(&self, name: &str) {
        self.cut.summarize(name);
        self.cropped.summarize(name);
        for stage in &self.stages {
            if let Stage::Mean(Some(mean)) = stage {
                mean.summarize();
            }
        }
    }

    fn warn_of_crop(&self) {
        let line = "Color or Intensity follows a crop of an image that already has fractional values. As in CNTK 2.7, the last rows \
                    of the crop are not changed. Put crops first, before Mean, Color and Intensity.";
        self.cropped.warn(|| vec![line.to_owned()]);
    }

    fn warn_of_channels(&self, declared: u32, found: u32) {
        self.cut.warn(|| {
            let remedy = match (declared, found) {
                (1, 3) => {
                    "Set ‹grayscale = true› of the deserializer. CNTK ignores that for WebP images: convert these to PNG"
                }
                (_, 4) => "CNTK does not drop the alpha of WebP images: convert them to PNG",
                _ => "Set ‹channels› to the number that the images have",
            };
            vec![format!(
                "Scale says channels = {declared}, but an image has {found}. As in CNTK 2.7, only its first values are delivered, as many \
                 as the declared shape has, which mixes channels and pixels. {remedy}."
            )]
        });
    }
}

/// The random engine of a position, looked up or created at the first draw.
struct LazyEngine<'a> {
    engines: &'a mut Engines,
    slot: u32,
    seed: u32,
}

impl RandomSource for LazyEngine<'_> {
    fn next(&mut self) -> u32 {
        self.engines.at(self.slot, self.seed).next()
    }
}

impl Stage {
    fn new(options: &TransformOptions, users: &[(String, Arc<dyn UserTransform>)]) -> Result<Stage> {
        Ok(match options {
            TransformOptions::Crop(options) => Stage::Crop(options.clone()),
            TransformOptions::Scale(options)
                if options.width == 0 || options.height == 0 || options.channels == 0 =>
            {
                let detail = format!(
                    "Scale has width {}, height {} and channels {}; each must be at least 1.",
                    options.width, options.height, options.channels
                );
                let class = cntk_reader_core::ExceptionClass::Runtime;
                return Err(Error::config(class, "Invalid image dimensions.").as_cntk().with_detail(detail));
            }
            TransformOptions::Scale(options) => Stage::Scale(options.clone()),
            TransformOptions::Mean(file) => Stage::Mean(file.as_deref().map(Mean::open).transpose()?),
            TransformOptions::Color(options) => Stage::Color(options.clone()),
            TransformOptions::Intensity(options) => Stage::Intensity(Intensity::open(options)?, options.seed),
            TransformOptions::Transpose => Stage::Transpose,
            TransformOptions::Cast => Stage::Cast,
            TransformOptions::User(options) => {
                let name = &options.name;
                let Some((_, transform)) = users.iter().find(|(found, _)| found == name) else {
                    // CNTK's message for an unknown type.
                    let message =
                        "Cannot create transformer. Please check the module and type in the configuration.";
                    let detail = format!(
                        "No transform is registered under the name '{name}'; register it before the reader is opened."
                    );
                    return Err(Error::config(cntk_reader_core::ExceptionClass::Runtime, message)
                        .as_cntk()
                        .with_detail(detail));
                };
                Stage::User { name: name.clone(), transform: Arc::clone(transform), seed: options.seed }
            }
        })
    }

    /// Returns the transform's name if it produces fractional values.
    fn with_fractions(&self) -> Option<&'static str> {
        match self {
            Stage::Mean(Some(_)) => Some("Mean"),
            Stage::Color(options) if !color::is_off(options) => Some("Color"),
            Stage::Intensity(Some(_), _) => Some("Intensity"),
            _ => None,
        }
    }

    /// Returns a number for the transform's kind: random transforms of the same kind in two lists
    /// draw the same numbers for a sequence. User-defined transforms are of the same kind if their
    /// names are equal up to a `#`.
    fn kind(&self) -> u64 {
        match self {
            Stage::Crop(_) => 1,
            Stage::Color(_) => 2,
            Stage::Intensity(..) => 3,
            Stage::User { name, .. } => number_of(name.split('#').next().unwrap_or_default()),
            Stage::Scale(_) | Stage::Mean(_) | Stage::Transpose | Stage::Cast => 0,
        }
    }

    fn seed(&self) -> u32 {
        match self {
            Stage::Crop(options) => options.seed,
            Stage::Color(options) => options.seed,
            Stage::Intensity(_, seed) | Stage::User { seed, .. } => *seed,
            Stage::Scale(_) | Stage::Mean(_) | Stage::Transpose | Stage::Cast => 0,
        }
    }

    /// Plans the transform of one image and updates `image` to the result. `is_image` tracks
    /// whether transforms still accept it as an image.
    fn plan(
        &self,
        source: &mut impl RandomSource,
        copy: u32,
        image: &mut ImageInfo,
        is_image: &mut bool,
        element: ElementType,
        drawn: Drawn,
    ) -> Result<Step> {
        let takes_anything = matches!(self, Stage::Cast | Stage::User { .. });
        if !takes_anything && !*is_image {
            return Err(self.no_image());
        }
        let depth = Depth::of(element);
        Ok(match self {
            Stage::Crop(options) => {
                let cut = crop::plan(options, image, copy, source)?;
                (image.width, image.height) = (cut.region.width, cut.region.height);
                Step::Crop(cut)
            }
            Stage::Scale(options) => {
                let fit = scale::plan(options, image)?;
                (image.width, image.height) = (options.width, options.height);
                check_size(image, "An image after Scale")?;
                Step::Scale(fit)
            }
            Stage::Mean(Some(mean)) if mean.applies(image, element)? => {
                image.depth = depth;
                Step::Mean
            }
            Stage::Color(options) if !color::is_off(options) => {
                let change = color::plan(options, image, element, source)?;
                image.depth = depth;
                Step::Color(change)
            }
            Stage::Intensity(Some(intensity), _) => {
                image.depth = depth;
                Step::Intensity(intensity.plan(source))
            }
            Stage::Mean(_) | Stage::Color(_) | Stage::Intensity(None, _) => Step::Keep,
            Stage::Transpose => {
                image.order = PixelOrder::Planar;
                *is_image = false;
                Step::Transpose
            }
            Stage::Cast => {
                if image.depth != Depth::Byte {
                    image.depth = depth;
                }
                *is_image = false;
                Step::Cast
            }
            Stage::User { transform, name, .. } => {
                *image = transform.result(*image)?;
                check_size(image, &format!("An image after the transform '{name}'"))?;
                if element == ElementType::UInt8 && image.depth != Depth::Byte {
                    let message =
                        format!("The transform '{name}' makes other values than uint8 of an image.");
                    let detail = "The stream is uint8: return bytes, or set ‹element› to float32.";
                    return Err(Error::user(message).with_detail(detail));
                }
                *is_image = image.order == PixelOrder::Interleaved;
                let random = u64::from(source.next()) << 32 | u64::from(source.next());
                Step::User { random, drawn, result: *image }
            }
        })
    }

    /// Returns the error of a transform whose input is not an image any more (CNTK 2.7: after
    /// `Transpose` or `Cast`).
    fn no_image(&self) -> Error {
        let message = match self {
            Stage::Transpose => "Currently Transpose transform only works with images.",
            _ => "Unexpected sequence provided",
        };
        let found = "An image transform was found after Transpose or Cast, whose results are not images.";
        let detail = "Put these two at the end of the transforms.";
        Error::data(message).as_cntk().with_detail(found).with_detail(detail)
    }
}

/// Updates the visible part of the image for a step. User-defined transforms do not change it.
fn follow_drawn(drawn: &mut Drawn, size: (u32, u32), step: &Step) {
    match *step {
        Step::Crop(Cut { region, mirrored }) => drawn.cut(size, region, mirrored),
        Step::Scale(Fit { resize, cut, padding }) => {
            drawn.cut(resize.map_or(size, |resize| (resize.width, resize.height)), cut, false);
            if let Some(padding) = padding {
                drawn.pad((cut.width, cut.height), padding.before, padding.after);
            }
        }
        _ => {}
    }
}

fn check_size(image: &ImageInfo, what: &str) -> Result<()> {
    let ImageInfo { width, height, channels, .. } = *image;
    let count = image.values();
    if count > 0 && count <= MAX_IMAGE_VALUES {
        return Ok(());
    }
    let message = format!("{what} has {width} columns, {height} rows and {channels} channels.");
    let limit = if count == 0 { "At least one value" } else { "At most 2147483648 values" };
    Err(Error::data(message).with_detail(format!("{limit} was expected; check the requested sizes.")))
}

/// Checks the result of a user-defined transform.
fn check_promise(name: &str, promised: &ImageInfo, image: &Image) -> Result<()> {
    let found = image.info();
    if found == *promised && image.pixels.len() == found.values() {
        return Ok(());
    }
    let message = format!("The transform '{name}' did not return the image that it promised.");
    let detail = format!(
        "It promised {promised:?}, but returned {found:?} with {} values. 'apply' must return what 'result' promises.",
        image.pixels.len()
    );
    Err(Error::user(message).with_detail(detail))
}

#[cfg(test)]
pub(super) mod tests;
