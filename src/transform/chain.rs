//! A chain of transforms, and what it plans for one image.

use super::color::Change;
use super::crop::Cut;
use super::intensity::Intensity;
use super::mean::Mean;
use super::pixels::{Memory, Real};
use super::random::{Engines, Source, SplitMix};
use super::resize::Tables;
use super::scale::Fit;
use super::user::UserTransform;
use super::{color, crop, intensity, scale, transpose};
use crate::config::options::{ColorOptions, CropOptions, ScaleOptions, TransformOptions};
use crate::image::{Depth, Image, ImageInfo, PixelOrder, Region};
use crate::log::{Level, Logger};
use crate::stream::ElementType;
use crate::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most values of an image, 2^31: more than CNTK's images can have.
const MOST_VALUES: usize = 1 << 31;

/// The transforms of one stream, in their order; a cast to the stream's element type is the last one.
pub struct Chain {
    stages: Vec<Stage>,
    element: ElementType,
    /// The random engines of each transform. Without, draws depend on the sequence alone.
    engines: Option<Mutex<Vec<Engines>>>,
    /// The warning of images that have more channels than `Scale` says was given.
    has_warned: AtomicBool,
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

/// What a transform is going to do with one image.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Nothing.
    Keep,
    Crop(Cut),
    Scale(Fit),
    Mean,
    Color(Change),
    Intensity([f32; 3]),
    Transpose,
    Cast,
    User {
        random: u64,
        result: ImageInfo,
    },
}

/// Which image it is, for what is drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Position of the sequence among those of the minibatch that are valid: CNTK 2.7 has one random engine for each.
    pub slot: u32,
    /// Number of the copy, 0 to 9, of an image that is delivered in ten views; else 0.
    pub copy: u32,
    /// The sweep, and a number that stands for the sequence's key in every run: what reproducible draws depend on, beside the
    /// number of the copy.
    pub identity: (u64, u64),
}

/// What the transforms of a chain are going to do with one image. Its memory is used again for the next one.
#[derive(Debug)]
pub struct Plan {
    steps: Vec<Step>,
    /// Values of a pixel that the image has at first.
    channels: u32,
    region: Region,
    result: ImageInfo,
    /// Channels of the stream, if the image has more.
    declared: Option<u32>,
}

impl Default for Plan {
    fn default() -> Plan {
        let (region, result) = (Region::whole(0, 0), ImageInfo::decoded(0, 0, 0));
        Plan { steps: Vec::new(), channels: 0, region, result, declared: None }
    }
}

impl Plan {
    /// The part of the decoded image that the chain needs: what the first crop takes, if nothing comes before it.
    /// [`Chain::apply`] gets that part alone.
    pub fn region(&self) -> Region {
        self.region
    }

    /// What the image is in the end.
    pub fn result(&self) -> ImageInfo {
        self.result
    }

    /// Leaves of an image that has more channels than its stream as many values as the stream's shape has (CNTK 2.7): the first
    /// ones, pixel after pixel.
    fn leave_declared(&self, image: &mut Image) {
        if let Some(channels) = self.declared.filter(|&channels| channels < image.channels) {
            image.channels = channels;
            image.pixels.truncate(image.info().values());
        }
    }
}

/// Memory that one application after the other uses; each belongs to one thread at a time.
#[derive(Default)]
pub struct Scratch {
    memory: Memory,
    tables: Tables,
}

impl Scratch {
    /// Makes an image that has gone through a chain ready for a decoder: it gets memory for bytes, and the memory of its
    /// floating-point values, if it has any, is kept for the next application. Without this call they are allocated again
    /// for each image.
    pub fn reclaim(&mut self, image: &mut Image) {
        self.memory.reclaim(image);
        image.planar = false;
    }
}

impl Chain {
    /// Makes the transforms; reads the files that they name. `users` has those that the options name. Fails if a file cannot be
    /// read or does not have what it should, or if a user's transform is missing.
    pub fn new(
        options: &[TransformOptions],
        users: &[(String, Arc<dyn UserTransform>)],
        element: ElementType,
        reproducible: bool,
    ) -> Result<Chain> {
        let stages = options.iter().map(|options| Stage::new(options, users)).collect::<Result<Vec<_>>>()?;
        let engines = || Mutex::new(stages.iter().map(|_| Engines::default()).collect());
        let engines = (!reproducible).then(engines);
        Ok(Chain { stages, element, engines, has_warned: AtomicBool::new(false) })
    }

    /// Shape of the samples, if the transforms fix it (CNTK 2.7: the last `Scale` that no `Crop` follows), given the shape
    /// before them.
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

    /// Draws what is random for one image. The order of calls decides what is drawn, unless draws are reproducible. Fails if
    /// the transforms do not fit such an image.
    pub fn plan(&self, draw: Draw, image: ImageInfo, plan: &mut Plan) -> Result<()> {
        check_size(&image, "An image")?;
        plan.steps.clear();
        plan.channels = image.channels;
        plan.region = Region::whole(image.width, image.height);
        let mut engines = self.engines.as_ref().map(|engines| engines.lock());
        let mut image = image;
        // A crop can be left to the decoder as long as nothing has been done to the image.
        let mut is_untouched = true;
        let mut is_image = image.order == PixelOrder::Interleaved;
        // The number of channels that the shape of the stream has, as far as it is declared.
        let mut declared = None;
        for (place, stage) in self.stages.iter().enumerate() {
            let mut step = match engines.as_mut().and_then(|engines| engines.get_mut(place)) {
                Some(engines) => {
                    let mut source = LazyEngine { engines, slot: draw.slot, seed: stage.seed() };
                    stage.plan(&mut source, draw.copy, &mut image, &mut is_image, self.element)?
                }
                None => {
                    let (sweep, key) = draw.identity;
                    let parts = [stage.seed().into(), place as u64, sweep, key, draw.copy.into()];
                    let mut source = SplitMix::new(&parts);
                    stage.plan(&mut source, draw.copy, &mut image, &mut is_image, self.element)?
                }
            };
            if let (Step::Crop(cut), true) = (&mut step, is_untouched) {
                plan.region = std::mem::replace(&mut cut.region, Region::whole(image.width, image.height));
            }
            match stage {
                Stage::Scale(options) => declared = Some(options.channels),
                Stage::Crop(_) | Stage::User { .. } => declared = None,
                _ => {}
            }
            is_untouched &= matches!(step, Step::Keep);
            plan.steps.push(step);
        }
        drop(engines);
        // CNTK 2.7 takes as many values as the declared shape has: the first ones.
        plan.declared = declared.filter(|&channels| channels < image.channels);
        if let Some(channels) = plan.declared {
            self.warn_of_channels(channels, image.channels);
            image.channels = channels;
        }
        if image.depth != Depth::Byte {
            image.depth = Depth::Element(self.element);
        }
        plan.result = image;
        Ok(())
    }

    /// Changes an image as planned. Any thread may do that, several at once. The image has to be the planned part
    /// ([`Plan::region`]) of the image that was planned for. Fails if a user's transform does.
    pub fn apply(&self, plan: &Plan, image: &mut Image, scratch: &mut Scratch) -> Result<()> {
        let Region { width, height, .. } = plan.region;
        if (image.width, image.height, image.channels) != (width, height, plan.channels)
            || image.pixels.len() != image.info().values()
            || plan.steps.len() != self.stages.len()
        {
            return Err(Error::internal("An image is not what its transforms were planned for."));
        }
        match self.element {
            ElementType::Float => self.apply_as::<f32>(plan, image, scratch),
            ElementType::Double => self.apply_as::<f64>(plan, image, scratch),
        }
    }

    fn apply_as<T: Real>(&self, plan: &Plan, image: &mut Image, scratch: &mut Scratch) -> Result<()> {
        let Scratch { memory, tables } = scratch;
        for (stage, step) in self.stages.iter().zip(&plan.steps) {
            match (step, stage) {
                (Step::Crop(cut), _) => crop::apply(cut, image),
                (Step::Scale(fit), Stage::Scale(options)) => {
                    scale::apply(options, fit, image, tables, memory)
                }
                (Step::Mean, Stage::Mean(Some(mean))) => mean.apply(image, memory),
                (Step::Color(change), _) => color::apply::<T>(change, image, memory),
                (Step::Intensity(shifts), _) => intensity::apply::<T>(shifts, image, memory),
                (Step::Transpose, _) => {
                    plan.leave_declared(image);
                    transpose::transpose(image, memory);
                }
                (Step::Cast, _) => transpose::cast::<T>(image, memory),
                (Step::User { random, result }, Stage::User { name, transform, .. }) => {
                    transform.apply(image, *random)?;
                    check_promise(name, result, image)?;
                }
                _ => {}
            }
        }
        transpose::cast::<T>(image, memory);
        plan.leave_declared(image);
        Ok(())
    }

    fn warn_of_channels(&self, declared: u32, found: u32) {
        if self.has_warned.swap(true, Ordering::Relaxed) {
            return;
        }
        let line = format!(
            "Scale says channels = {declared}, but an image has {found}. Delivered are as many of its values, from its first row \
             on, as the declared shape has (CNTK 2.7). Set 'channels' to {found}, or 'grayscale = true' in the deserializer's \
             section. There is no warning of further images."
        );
        Logger::log_always(Level::Warning, &line);
    }
}

/// The engine of a position, which is looked up, and perhaps made, when something is drawn from it.
struct LazyEngine<'a> {
    engines: &'a mut Engines,
    slot: u32,
    seed: u32,
}

impl Source for LazyEngine<'_> {
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
                    "Scale has width {}, height {} and channels {}; each has to be at least 1.",
                    options.width, options.height, options.channels
                );
                let class = crate::ExceptionClass::Runtime;
                return Err(Error::config(class, "Invalid image dimensions.").with_detail(detail));
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
                    // CNTK's words for a type that it does not know.
                    let message =
                        "Cannot create transformer. Please check the module and type in the configuration.";
                    let detail = format!(
                        "No transform was registered by the name '{name}'; register it before the reader is opened."
                    );
                    return Err(Error::config(crate::ExceptionClass::Runtime, message).with_detail(detail));
                };
                let seed = match options.section.exists_here("seed") {
                    true => options.section.parsed_or("seed", 0)?,
                    false => 0,
                };
                Stage::User { name: name.clone(), transform: Arc::clone(transform), seed }
            }
        })
    }

    fn seed(&self) -> u32 {
        match self {
            Stage::Crop(options) => options.seed,
            Stage::Color(options) => options.seed,
            Stage::Intensity(_, seed) | Stage::User { seed, .. } => *seed,
            Stage::Scale(_) | Stage::Mean(_) | Stage::Transpose | Stage::Cast => 0,
        }
    }

    /// Plans for one image, and makes `image` what it becomes. `is_image` says whether transforms still take it for one.
    fn plan(
        &self,
        source: &mut impl Source,
        copy: u32,
        image: &mut ImageInfo,
        is_image: &mut bool,
        element: ElementType,
    ) -> Result<Step> {
        let takes_anything = matches!(self, Stage::Cast | Stage::User { .. });
        if !takes_anything && !*is_image {
            return Err(self.no_image());
        }
        let depth = Depth::Element(element);
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
                *is_image = image.order == PixelOrder::Interleaved;
                let random = u64::from(source.next()) << 32 | u64::from(source.next());
                Step::User { random, result: *image }
            }
        })
    }

    /// The error of a transform that gets what is no image any more (CNTK 2.7: after `Transpose` or `Cast`).
    fn no_image(&self) -> Error {
        let message = match self {
            Stage::Transpose => "Currently Transpose transform only works with images.",
            _ => "Unexpected sequence provided",
        };
        let detail = "A transform of images was found after Transpose or Cast; these end the form in which transforms take \
                      images. Put them at the end of the transforms.";
        Error::data(message).with_detail(detail)
    }
}

fn check_size(image: &ImageInfo, what: &str) -> Result<()> {
    let ImageInfo { width, height, channels, .. } = *image;
    let count = image.values();
    if count > 0 && count <= MOST_VALUES {
        return Ok(());
    }
    let message = format!("{what} has {width} columns, {height} rows and {channels} channels.");
    let limit = if count == 0 { "At least one value" } else { "At most 2147483648 values" };
    Err(Error::data(message)
        .with_detail(format!("{limit} was expected; check the sizes that are asked for.")))
}

/// Checks what a user's transform has made of an image.
fn check_promise(name: &str, promised: &ImageInfo, image: &Image) -> Result<()> {
    let found = image.info();
    if found == *promised && image.pixels.len() == found.values() {
        return Ok(());
    }
    let message = format!("The transform '{name}' has not made of an image what it has promised.");
    let detail = format!(
        "Promised was {promised:?}, found was {found:?} with {} values. 'apply' has to make what 'result' says.",
        image.pixels.len()
    );
    Err(Error::user(message).with_detail(detail))
}
