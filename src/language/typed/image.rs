//! Builders of the deserializers of images, and of the transforms of their images.

use super::{of_module, streams};
use crate::language::values::{Value, Values};
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use cntk_reader_images::transform::{Interpolation, ScaleMode};
use std::path::Path;

/// An element of `transforms`: one of the library's own, such as [`Crop`], or [one of the user's own](Transform::named).
#[derive(Debug, Clone, PartialEq)]
pub struct Transform(Values);

impl Transform {
    /// A transform of the user's own, by the name that it was given to
    /// [`Builder::transform`](crate::Builder::transform) with.
    #[must_use]
    pub fn named(name: &str) -> Transform {
        Transform(Values::of_type(name))
    }

    fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.set(key, value);
    }
}

/// What all of the library's transforms have beside their keys.
macro_rules! transform {
    ($($name:ident)*) => { $(
        impl From<$name> for Transform {
            fn from(transform: $name) -> Transform {
                transform.0
            }
        }
    )* };
}

transform!(Crop Scale Mean Color Intensity Transpose Cast);

/// The seed of a random transform.
macro_rules! seed {
    () => {
        /// Seed of the random draws (`seed`; default: 0). Transforms with equal seeds draw equal numbers.
        #[must_use]
        pub fn seed(mut self, seed: u32) -> Self {
            self.0.set("seed", seed);
            self
        }
    };
}

/// Cuts a part out of images, whose size is either [given](Crop::size) or a share of the image's. Without either it is the
/// whole image.
///
/// ```
/// use cntk_reader::images::Crop;
///
/// let crop = Crop::random().area_ratio(0.08, 1.0).aspect_ratio(0.75, 1.3333).jitter(true);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Crop(Transform);

impl Crop {
    fn of(kind: &'static str) -> Crop {
        let mut crop = Crop(Transform::named("Crop"));
        crop.0.set("cropType", kind);
        crop
    }

    /// The middle of the image (`cropType = "Center"`).
    #[must_use]
    pub fn center() -> Crop {
        Crop::of("Center")
    }

    /// A part at a random place (`cropType = "RandomSide"`); half of the images are mirrored unless [`Crop::flip`] says
    /// otherwise.
    #[must_use]
    pub fn random() -> Crop {
        Crop::of("RandomSide")
    }

    /// Corners and middle, plain and mirrored, one after the other (`cropType = "MultiView10"`): of the ten sequences that
    /// each image has with [`ImageDeserializer::multi_view`].
    #[must_use]
    pub fn multi_view() -> Crop {
        Crop::of("MultiView10")
    }

    /// Columns and rows, at most those of the image (`cropSize`; default: not given).
    #[must_use]
    pub fn size(mut self, width: u32, height: u32) -> Crop {
        self.0.set("cropSize", (width, height));
        self
    }

    /// Both sides' length as a share of the image's shorter side, above 0 and up to 1 (`sideRatio`; default: not given).
    /// Only with [`Crop::jitter`] it is drawn between the two numbers; otherwise it is `least`.
    #[must_use]
    pub fn side_ratio(mut self, least: f32, greatest: f32) -> Crop {
        self.0.set("sideRatio", (least, greatest));
        self
    }

    /// The area as a share of the image's, above 0 and up to 1 (`areaRatio`; default: not given). Only with
    /// [`Crop::jitter`] it is drawn between the two numbers; otherwise it is `least`.
    #[must_use]
    pub fn area_ratio(mut self, least: f32, greatest: f32) -> Crop {
        self.0.set("areaRatio", (least, greatest));
        self
    }

    /// The longer side divided by the shorter one or the other way round, at random (`aspectRatio`; default: 1). Only with
    /// [`Crop::jitter`] it is drawn between the two numbers; otherwise it is `least`.
    #[must_use]
    pub fn aspect_ratio(mut self, least: f32, greatest: f32) -> Crop {
        self.0.set("aspectRatio", (least, greatest));
        self
    }

    /// Ratios are drawn between their bounds (`jitterType = "UniRatio"`; default: false).
    #[must_use]
    pub fn jitter(mut self, jitter: bool) -> Crop {
        self.0.set("jitterType", if jitter { "UniRatio" } else { "None" });
        self
    }

    /// Half of the images are mirrored (`hflip`; default: true for [`Crop::random`], else false).
    #[must_use]
    pub fn flip(mut self, flip: bool) -> Crop {
        self.0.set("hflip", flip);
        self
    }

    seed!();
}

/// Gives images a size.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale(Transform);

impl Scale {
    /// Columns, rows, and the number of channels that the images have.
    #[must_use]
    pub fn new(width: u32, height: u32, channels: u32) -> Scale {
        let mut transform = Transform::named("Scale");
        transform.set("width", width);
        transform.set("height", height);
        transform.set("channels", channels);
        Scale(transform)
    }

    /// How values between pixels come about (`interpolations`; default: [`Interpolation::Linear`]).
    #[must_use]
    pub fn interpolation(mut self, interpolation: Interpolation) -> Scale {
        let word = match interpolation {
            Interpolation::Nearest => "nearest",
            Interpolation::Linear => "linear",
            Interpolation::Cubic => "cubic",
            Interpolation::Lanczos => "lanczos",
        };
        self.0.set("interpolations", word);
        self
    }

    /// What becomes of images with other proportions (`scaleMode`, `padValue`; default: [`ScaleMode::Fill`]).
    #[must_use]
    pub fn mode(mut self, mode: ScaleMode) -> Scale {
        let (word, value) = match mode {
            ScaleMode::Fill => ("fill", None),
            ScaleMode::Crop => ("crop", None),
            ScaleMode::Pad(value) => ("pad", value),
        };
        self.0.set("scaleMode", word);
        match value {
            Some(value) => self.0.set("padValue", value),
            None => self.0.set("padValue", -1),
        }
        self
    }
}

/// Subtracts a mean image.
#[derive(Debug, Clone, PartialEq)]
pub struct Mean(Transform);

impl Mean {
    /// `path`: of the file with the mean image (`meanFile`), in OpenCV's XML or YAML.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Mean {
        let mut transform = Transform::named("Mean");
        transform.set("meanFile", path.as_ref());
        Mean(transform)
    }
}

/// Changes colors at random. Each radius is from 0, which changes nothing, to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Color(Transform);

impl Default for Color {
    fn default() -> Color {
        Color(Transform::named("Color"))
    }
}

impl Color {
    /// Changes nothing yet.
    #[must_use]
    pub fn new() -> Color {
        Color::default()
    }

    /// Adds up to this share of the image's mean, or subtracts it (`brightnessRadius`; default: 0).
    #[must_use]
    pub fn brightness(mut self, radius: f64) -> Color {
        self.0.set("brightnessRadius", radius);
        self
    }

    /// Multiplies values by 1, more or less up to this (`contrastRadius`; default: 0).
    #[must_use]
    pub fn contrast(mut self, radius: f64) -> Color {
        self.0.set("contrastRadius", radius);
        self
    }

    /// Multiplies the saturation by 1, more or less up to this (`saturationRadius`; default: 0).
    #[must_use]
    pub fn saturation(mut self, radius: f64) -> Color {
        self.0.set("saturationRadius", radius);
        self
    }

    seed!();
}

/// Changes the intensity at random, along the principal components of colors.
#[derive(Debug, Clone, PartialEq)]
pub struct Intensity(Transform);

impl Intensity {
    /// `std_dev`: standard deviation of what is drawn (`intensityStdDev`). `path`: of the file with `EigVal` and `EigVec`
    /// (`intensityFile`), in OpenCV's XML or YAML.
    #[must_use]
    pub fn new(std_dev: f64, path: impl AsRef<Path>) -> Intensity {
        let mut transform = Transform::named("Intensity");
        transform.set("intensityStdDev", std_dev);
        transform.set("intensityFile", path.as_ref());
        Intensity(transform)
    }

    seed!();
}

/// Makes planes of images: channel after channel instead of pixel after pixel. Only [`Cast`] may follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Transpose(Transform);

impl Default for Transpose {
    fn default() -> Transpose {
        Transpose(Transform::named("Transpose"))
    }
}

impl Transpose {
    /// The transform.
    #[must_use]
    pub fn new() -> Transpose {
        Transpose::default()
    }
}

/// Makes numbers of the stream's element type of an image's bytes. It is always the last transform, whether it is added or
/// not; only [`Transpose`] may follow another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Cast(Transform);

impl Default for Cast {
    fn default() -> Cast {
        Cast(Transform::named("Cast"))
    }
}

impl Cast {
    /// The transform.
    #[must_use]
    pub fn new() -> Cast {
        Cast::default()
    }
}

/// The values of a deserializer of images.
#[derive(Debug, Clone, PartialEq)]
struct Images {
    values: Values,
    features: String,
    labels: String,
    /// The stream of draws; empty if there is none.
    draws: String,
    classes: usize,
    transforms: Vec<Transform>,
    /// Type of the images' values.
    element: Option<ElementType>,
}

impl Images {
    fn values(&self) -> Result<Values> {
        let Images { features, labels, draws, .. } = self;
        if !draws.is_empty() && [features, labels].iter().any(|name| name.eq_ignore_ascii_case(draws)) {
            let message = format!("The stream of draws needs a name of its own, not '{draws}'.");
            return Err(Error::config(InvalidArgument, message));
        }
        if features.eq_ignore_ascii_case(labels) {
            let message = format!("Images and labels need streams of different names, not '{labels}'.");
            return Err(
                Error::config(InvalidArgument, message).with_detail("Upper and lower case are the same.")
            );
        }
        let stream = |key: &str, value: Value| {
            let mut stream = Values::default();
            stream.set(key, value);
            stream
        };
        let transforms = self.transforms.iter().map(|Transform(values)| Value::Section(values.clone()));
        let mut images = stream("transforms", Value::List(transforms.collect()));
        if let Some(element) = self.element {
            images.set("element", element.name());
        }
        let mut all = vec![(&**features, images), (&**labels, stream("labelDim", self.classes.into()))];
        if !draws.is_empty() {
            all.push((&**draws, stream("draw", true.into())));
        }
        let mut values = self.values.clone();
        values.set("input", streams(all.into_iter())?);
        Ok(values)
    }
}

/// What both deserializers of images have.
macro_rules! images {
    ($name:ident) => {
        impl $name {
            /// Reads images as the dense stream `features` and their classes, numbers below `classes`, as the sparse
            /// stream `labels`.
            #[must_use]
            pub fn new(file: impl AsRef<Path>, features: &str, labels: &str, classes: usize) -> $name {
                let mut values = of_module(stringify!($name), "ImageReader");
                values.set("file", file.as_ref());
                $name(Images {
                    values,
                    features: features.to_owned(),
                    labels: labels.to_owned(),
                    draws: String::new(),
                    classes,
                    transforms: Vec::new(),
                    element: None,
                })
            }

            /// Type of the values of images (`element`; default: that of
            /// [`ReaderOptions::precision`](crate::ReaderOptions::precision)). With
            /// [`ElementType::UInt8`] pixels stay the bytes that they are; [`Mean`], [`Color`] and
            /// [`Intensity`] are refused then.
            #[must_use]
            pub fn element(mut self, element: ElementType) -> $name {
                self.0.element = Some(element);
                self
            }

            /// Adds a transform, which follows those added before. None is added by itself: without a [`Transpose`], samples
            /// have their values pixel after pixel.
            #[must_use]
            pub fn add_transform(mut self, transform: impl Into<Transform>) -> $name {
                self.0.transforms.push(transform.into());
                self
            }

            /// Adds a dense stream with a sample of seven numbers for each image, so that targets
            /// can follow crops and flips: what the transforms show of it, as
            /// [`Drawn::values`](crate::user::Drawn::values) has it (`draw`; default: no such
            /// stream).
            #[must_use]
            pub fn draws(mut self, stream: &str) -> $name {
                self.0.draws = stream.to_owned();
                self
            }

            /// Decodes images to one channel (`grayscale`; default: false).
            #[must_use]
            pub fn grayscale(mut self, grayscale: bool) -> $name {
                self.0.values.set("grayscale", grayscale);
                self
            }

            /// Each image stands for ten sequences, the views of [`Crop::multi_view`] (`multiViewCrop`; default: false).
            #[must_use]
            pub fn multi_view(mut self, multi_view: bool) -> $name {
                self.0.values.set("multiViewCrop", multi_view);
                self
            }

            /// Most columns times rows of an image that are decoded; a larger one is an error (`maxPixels`; default: 2^28).
            #[must_use]
            pub fn max_pixels(mut self, pixels: u64) -> $name {
                self.0.values.set("maxPixels", pixels);
                self
            }

            /// Random transforms depend on nothing but their seed, the sweep and the sequence
            /// (`reproducibleTransforms`; default: that of the
            /// [`ReaderOptions`](crate::ReaderOptions)). Otherwise they draw what CNTK draws, which
            /// depends on all minibatches read before.
            #[must_use]
            pub fn reproducible_transforms(mut self, reproducible: bool) -> $name {
                self.0.values.set("reproducibleTransforms", reproducible);
                self
            }

            /// The section that a configuration would have in `deserializers`.
            pub fn to_configuration(&self) -> Result<String> {
                self.values()?.to_section()
            }

            #[doc(hidden)]
            pub fn values(&self) -> Result<Values> {
                self.0.values()
            }
        }
    };
}

/// Images in files, or in zip files, which a map file lists with their classes.
///
/// ```
/// use cntk_reader::ImageDeserializer;
/// use cntk_reader::images::{Crop, Scale, Transpose};
///
/// let images = ImageDeserializer::new("train.map", "features", "labels", 1000)
///     .add_transform(Crop::random().side_ratio(0.5, 1.0).jitter(true))
///     .add_transform(Scale::new(224, 224, 3))
///     .add_transform(Transpose::new());
/// # assert!(images.to_configuration()?.contains("labels = [ labelDim = 1000 ]"));
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ImageDeserializer(Images);

images!(ImageDeserializer);

/// Images in the lines of a file, encoded as Base64, with their classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Base64ImageDeserializer(Images);

images!(Base64ImageDeserializer);

impl Base64ImageDeserializer {
    /// Keeps the index in a file beside the data, in CNTK's format (`cacheIndex`; default: false).
    #[must_use]
    pub fn cache_index(mut self, cache: bool) -> Base64ImageDeserializer {
        self.0.values.set("cacheIndex", cache);
        self
    }
}
