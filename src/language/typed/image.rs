//! Builders of the image deserializers and of their transforms.

use super::{of_module, streams};
use crate::language::values::{Value, Values};
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use cntk_reader_images::transform::{Interpolation, ScaleMode};
use std::path::Path;

/// An element of `transforms`: one of the library's, such as [`Crop`], or [a user-defined
/// one](Transform::named).
#[derive(Debug, Clone, PartialEq)]
pub struct Transform(Values);

impl Transform {
    /// Returns a user-defined transform, by the name under which it was added with
    /// [`Builder::transform`](crate::Builder::transform).
    #[must_use]
    pub fn named(name: &str) -> Transform {
        Transform(Values::of_type(name))
    }

    fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.set(key, value);
    }
}

/// Implements the conversion that all of the library's transforms share.
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

/// Adds the setter for the seed of a random transform.
macro_rules! seed {
    () => {
        /// Sets the seed of the random draws (`seed`; default: 0). Transforms with equal seeds draw
        /// equal numbers.
        #[must_use]
        pub fn seed(mut self, seed: u32) -> Self {
            self.0.set("seed", seed);
            self
        }
    };
}

/// Crops images to a [given size](Crop::size) or to a ratio of the image's size. With neither, the
/// crop is the whole image.
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

    /// Crops the center of the image (`cropType = "Center"`).
    #[must_use]
    pub fn center() -> Crop {
        Crop::of("Center")
    }

    /// Crops at a random position (`cropType = "RandomSide"`); half of the images are mirrored
    /// unless [`Crop::flip`] says otherwise.
    #[must_use]
    pub fn random() -> Crop {
        Crop::of("RandomSide")
    }

    /// Crops corners and center, each plain and mirrored (`cropType = "MultiView10"`): one for each
    /// of the ten sequences per image of [`ImageDeserializer::multi_view`].
    #[must_use]
    pub fn multi_view() -> Crop {
        Crop::of("MultiView10")
    }

    /// Sets width and height, at most those of the image (`cropSize`; default: not set).
    #[must_use]
    pub fn size(mut self, width: u32, height: u32) -> Crop {
        self.0.set("cropSize", (width, height));
        self
    }

    /// Sets the length of both sides as a ratio of the image's shorter side, above 0 and up to 1
    /// (`sideRatio`; default: not set). It is drawn between the two numbers only with
    /// [`Crop::jitter`]; otherwise it is `least`.
    #[must_use]
    pub fn side_ratio(mut self, least: f32, greatest: f32) -> Crop {
        self.0.set("sideRatio", (least, greatest));
        self
    }

    /// Sets the area as a ratio of the image's area, above 0 and up to 1 (`areaRatio`; default: not
    /// set). It is drawn between the two numbers only with [`Crop::jitter`]; otherwise it is
    /// `least`.
    #[must_use]
    pub fn area_ratio(mut self, least: f32, greatest: f32) -> Crop {
        self.0.set("areaRatio", (least, greatest));
        self
    }

    /// Sets the ratio of the longer to the shorter side, with random orientation (`aspectRatio`;
    /// default: 1). It is drawn between the two numbers only with [`Crop::jitter`]; otherwise it is
    /// `least`.
    #[must_use]
    pub fn aspect_ratio(mut self, least: f32, greatest: f32) -> Crop {
        self.0.set("aspectRatio", (least, greatest));
        self
    }

    /// Draws ratios between their bounds (`jitterType = "UniRatio"`; default: false).
    #[must_use]
    pub fn jitter(mut self, jitter: bool) -> Crop {
        self.0.set("jitterType", if jitter { "UniRatio" } else { "None" });
        self
    }

    /// Mirrors half of the images (`hflip`; default: true for [`Crop::random`], else false).
    #[must_use]
    pub fn flip(mut self, flip: bool) -> Crop {
        self.0.set("hflip", flip);
        self
    }

    seed!();
}

/// Resizes images.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale(Transform);

impl Scale {
    /// Returns a transform to `width` columns and `height` rows, for images with this number of
    /// channels.
    #[must_use]
    pub fn new(width: u32, height: u32, channels: u32) -> Scale {
        let mut transform = Transform::named("Scale");
        transform.set("width", width);
        transform.set("height", height);
        transform.set("channels", channels);
        Scale(transform)
    }

    /// Sets how values between pixels are interpolated (`interpolations`; default:
    /// [`Interpolation::Linear`]).
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

    /// Sets how images with other aspect ratios are handled (`scaleMode`, `padValue`; default:
    /// [`ScaleMode::Fill`]).
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
    /// Returns a transform that reads the mean image from `path` (`meanFile`), in OpenCV's XML or
    /// YAML.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Mean {
        let mut transform = Transform::named("Mean");
        transform.set("meanFile", path.as_ref());
        Mean(transform)
    }
}

/// Changes colors at random. Each radius ranges from 0, which changes nothing, to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Color(Transform);

impl Default for Color {
    fn default() -> Color {
        Color(Transform::named("Color"))
    }
}

impl Color {
    /// Returns a transform that changes nothing yet.
    #[must_use]
    pub fn new() -> Color {
        Color::default()
    }

    /// Adds or subtracts up to this ratio of the image's mean (`brightnessRadius`; default: 0).
    #[must_use]
    pub fn brightness(mut self, radius: f64) -> Color {
        self.0.set("brightnessRadius", radius);
        self
    }

    /// Multiplies values by up to 1 plus or minus this radius (`contrastRadius`; default: 0).
    #[must_use]
    pub fn contrast(mut self, radius: f64) -> Color {
        self.0.set("contrastRadius", radius);
        self
    }

    /// Multiplies the saturation by up to 1 plus or minus this radius (`saturationRadius`; default:
    /// 0).
    #[must_use]
    pub fn saturation(mut self, radius: f64) -> Color {
        self.0.set("saturationRadius", radius);
        self
    }

    seed!();
}

/// Changes the intensity at random, along the principal components of the colors.
#[derive(Debug, Clone, PartialEq)]
pub struct Intensity(Transform);

impl Intensity {
    /// Returns a transform with random draws of the standard deviation `std_dev`
    /// (`intensityStdDev`). The file `path` contains `EigVal` and `EigVec` (`intensityFile`), in
    /// OpenCV's XML or YAML.
    #[must_use]
    pub fn new(std_dev: f64, path: impl AsRef<Path>) -> Intensity {
        let mut transform = Transform::named("Intensity");
        transform.set("intensityStdDev", std_dev);
        transform.set("intensityFile", path.as_ref());
        Intensity(transform)
    }

    seed!();
}

/// Converts images to planes: channel after channel instead of pixel after pixel. Only [`Cast`] may
/// follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Transpose(Transform);

impl Default for Transpose {
    fn default() -> Transpose {
        Transpose(Transform::named("Transpose"))
    }
}

impl Transpose {
    /// Returns the transform.
    #[must_use]
    pub fn new() -> Transpose {
        Transpose::default()
    }
}

/// Converts an image's bytes to the stream's element type. It is always the last transform but for
/// a [`Transpose`] after it, and is implied if it is not added.
#[derive(Debug, Clone, PartialEq)]
pub struct Cast(Transform);

impl Default for Cast {
    fn default() -> Cast {
        Cast(Transform::named("Cast"))
    }
}

impl Cast {
    /// Returns the transform.
    #[must_use]
    pub fn new() -> Cast {
        Cast::default()
    }
}

/// The values of an image deserializer.
#[derive(Debug, Clone, PartialEq)]
struct Images {
    values: Values,
    features: String,
    labels: String,
    /// The stream of draws; empty if there is none.
    draws: String,
    classes: usize,
    transforms: Vec<Transform>,
    /// Element type of the images' values.
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

/// Implements the methods that both image deserializers share.
macro_rules! images {
    ($name:ident) => {
        impl $name {
            /// Reads images as the dense stream `features` and their classes, numbers below
            /// `classes`, as the sparse stream `labels`.
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

            /// Sets the element type of images (`element`; default:
            /// [`ReaderOptions::precision`](crate::ReaderOptions::precision)). With
            /// [`ElementType::UInt8`] pixels stay bytes; [`Mean`], [`Color`] and [`Intensity`] are
            /// then refused.
            #[must_use]
            pub fn element(mut self, element: ElementType) -> $name {
                self.0.element = Some(element);
                self
            }

            /// Appends a transform. None is implied: without a [`Transpose`], the values of samples
            /// are stored pixel after pixel.
            #[must_use]
            pub fn add_transform(mut self, transform: impl Into<Transform>) -> $name {
                self.0.transforms.push(transform.into());
                self
            }

            /// Adds a dense stream with a sample of seven numbers for each image,
            /// [`Drawn::values`](crate::user::Drawn::values), so that targets can follow crops and
            /// flips (`draw`; default: no such stream).
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

            /// Yields ten sequences for each image, the views of [`Crop::multi_view`]
            /// (`multiViewCrop`; default: false).
            #[must_use]
            pub fn multi_view(mut self, multi_view: bool) -> $name {
                self.0.values.set("multiViewCrop", multi_view);
                self
            }

            /// Sets the maximum of columns times rows that are decoded; a larger image is an error
            /// (`maxPixels`; default: 2^28).
            #[must_use]
            pub fn max_pixels(mut self, pixels: u64) -> $name {
                self.0.values.set("maxPixels", pixels);
                self
            }

            /// Makes random transforms depend only on their seed, the sweep and the sequence
            /// (`reproducibleTransforms`; default: the setting of
            /// [`ReaderOptions`](crate::ReaderOptions)). Otherwise they draw the same numbers as
            /// CNTK, which depend on all minibatches read before.
            #[must_use]
            pub fn reproducible_transforms(mut self, reproducible: bool) -> $name {
                self.0.values.set("reproducibleTransforms", reproducible);
                self
            }

            /// Returns the section for `deserializers` in a configuration.
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

/// Images in files or zip archives, listed with their classes in a map file.
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

/// Images with their classes in the lines of a file, encoded as Base64.
#[derive(Debug, Clone, PartialEq)]
pub struct Base64ImageDeserializer(Images);

images!(Base64ImageDeserializer);

impl Base64ImageDeserializer {
    /// Caches the index in a file beside the data, in CNTK's format (`cacheIndex`; default: false).
    #[must_use]
    pub fn cache_index(mut self, cache: bool) -> Base64ImageDeserializer {
        self.0.values.set("cacheIndex", cache);
        self
    }
}
