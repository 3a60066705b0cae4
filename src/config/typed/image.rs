//! Builders of the deserializers of images, and of the transforms of their images.

use super::{Keys, check_name, check_quoted, quoted, quoted_path};
use crate::config::section::Section;
use crate::error::ExceptionClass::InvalidArgument;
use crate::transform::{Interpolation, ScaleMode};
use crate::{Error, Result};
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// An element of `transforms`: one of the library's own, such as [`Crop`], or [one of the user's own](Transform::named).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transform {
    name: String,
    keys: Keys,
    /// A key with a path.
    path: Option<(&'static str, PathBuf)>,
}

impl Transform {
    fn new(name: &str) -> Transform {
        Transform { name: name.to_owned(), keys: Keys::default(), path: None }
    }

    /// A transform of the user's own, by the name that it was given to
    /// [`Builder::transform`](crate::Builder::transform) with.
    #[must_use]
    pub fn named(name: &str) -> Transform {
        Transform::new(name)
    }

    fn check(&self) -> Result<()> {
        check_quoted("name of a transform", &self.name)
    }
}

/// The section that a configuration would have in `transforms`.
impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[ type = {}", quoted(&self.name))?;
        for (key, value) in &self.keys.0 {
            write!(f, " ; {key} = {value}")?;
        }
        if let Some((key, path)) = &self.path {
            write!(f, " ; {key} = {}", quoted_path(path))?;
        }
        f.write_str(" ]")
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

        /// The section that a configuration would have in `transforms`.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
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
            self.0.keys.set("seed", seed);
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
/// assert!(crop.to_string().contains("areaRatio = 0.08:1"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crop(Transform);

impl Crop {
    fn of(kind: &str) -> Crop {
        let mut crop = Crop(Transform::new("Crop"));
        crop.0.keys.set("cropType", kind);
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
        self.0.keys.set("cropSize", format!("{width}:{height}"));
        self
    }

    /// Both sides' length as a share of the image's shorter side, above 0 and up to 1 (`sideRatio`; default: not given).
    /// Only with [`Crop::jitter`] it is drawn between the two numbers; otherwise it is `least`.
    #[must_use]
    pub fn side_ratio(mut self, least: f32, greatest: f32) -> Crop {
        self.0.keys.set("sideRatio", format!("{least}:{greatest}"));
        self
    }

    /// The area as a share of the image's, above 0 and up to 1 (`areaRatio`; default: not given). Only with
    /// [`Crop::jitter`] it is drawn between the two numbers; otherwise it is `least`.
    #[must_use]
    pub fn area_ratio(mut self, least: f32, greatest: f32) -> Crop {
        self.0.keys.set("areaRatio", format!("{least}:{greatest}"));
        self
    }

    /// The longer side divided by the shorter one or the other way round, at random (`aspectRatio`; default: 1). Only with
    /// [`Crop::jitter`] it is drawn between the two numbers; otherwise it is `least`.
    #[must_use]
    pub fn aspect_ratio(mut self, least: f32, greatest: f32) -> Crop {
        self.0.keys.set("aspectRatio", format!("{least}:{greatest}"));
        self
    }

    /// Ratios are drawn between their bounds (`jitterType = "UniRatio"`; default: false).
    #[must_use]
    pub fn jitter(mut self, jitter: bool) -> Crop {
        self.0.keys.set("jitterType", if jitter { "UniRatio" } else { "None" });
        self
    }

    /// Half of the images are mirrored (`hflip`; default: true for [`Crop::random`], else false).
    #[must_use]
    pub fn flip(mut self, flip: bool) -> Crop {
        self.0.keys.set("hflip", flip);
        self
    }

    seed!();
}

/// Gives images a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale(Transform);

impl Scale {
    /// Columns, rows, and the number of channels that the images have.
    #[must_use]
    pub fn new(width: u32, height: u32, channels: u32) -> Scale {
        let mut transform = Transform::new("Scale");
        transform.keys.set("width", width);
        transform.keys.set("height", height);
        transform.keys.set("channels", channels);
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
        self.0.keys.set("interpolations", word);
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
        self.0.keys.set("scaleMode", word);
        match value {
            Some(value) => self.0.keys.set("padValue", value),
            None => self.0.keys.set("padValue", -1),
        }
        self
    }
}

/// Subtracts a mean image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mean(Transform);

impl Mean {
    /// `path`: of the file with the mean image (`meanFile`), in OpenCV's XML or YAML.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Mean {
        Mean(Transform { path: Some(("meanFile", path.as_ref().to_owned())), ..Transform::new("Mean") })
    }
}

/// Changes colors at random. Each radius is from 0, which changes nothing, to 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Color(Transform);

impl Default for Color {
    fn default() -> Color {
        Color(Transform::new("Color"))
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
        self.0.keys.set("brightnessRadius", radius);
        self
    }

    /// Multiplies values by 1, more or less up to this (`contrastRadius`; default: 0).
    #[must_use]
    pub fn contrast(mut self, radius: f64) -> Color {
        self.0.keys.set("contrastRadius", radius);
        self
    }

    /// Multiplies the saturation by 1, more or less up to this (`saturationRadius`; default: 0).
    #[must_use]
    pub fn saturation(mut self, radius: f64) -> Color {
        self.0.keys.set("saturationRadius", radius);
        self
    }

    seed!();
}

/// Changes the intensity at random, along the principal components of colors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intensity(Transform);

impl Intensity {
    /// `std_dev`: standard deviation of what is drawn (`intensityStdDev`). `path`: of the file with `EigVal` and `EigVec`
    /// (`intensityFile`), in OpenCV's XML or YAML.
    #[must_use]
    pub fn new(std_dev: f64, path: impl AsRef<Path>) -> Intensity {
        let path = Some(("intensityFile", path.as_ref().to_owned()));
        let mut transform = Transform { path, ..Transform::new("Intensity") };
        transform.keys.set("intensityStdDev", std_dev);
        Intensity(transform)
    }

    seed!();
}

/// Makes planes of images: channel after channel instead of pixel after pixel. Only [`Cast`] may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transpose(Transform);

impl Default for Transpose {
    fn default() -> Transpose {
        Transpose(Transform::new("Transpose"))
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cast(Transform);

impl Default for Cast {
    fn default() -> Cast {
        Cast(Transform::new("Cast"))
    }
}

impl Cast {
    /// The transform.
    #[must_use]
    pub fn new() -> Cast {
        Cast::default()
    }
}

/// The section of a deserializer of images.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ImageSection {
    name: &'static str,
    file: PathBuf,
    features: String,
    labels: String,
    /// The stream of draws; empty if there is none.
    draws: String,
    classes: usize,
    keys: Keys,
    transforms: Vec<Transform>,
}

impl ImageSection {
    fn section(&self) -> Result<Section> {
        check_name(&self.features)?;
        check_name(&self.labels)?;
        if !self.draws.is_empty() {
            check_name(&self.draws)?;
            if [&self.features, &self.labels].iter().any(|name| name.eq_ignore_ascii_case(&self.draws)) {
                let message = format!("The stream of draws needs a name of its own, not '{}'.", self.draws);
                return Err(Error::config(InvalidArgument, message));
            }
        }
        if self.features.eq_ignore_ascii_case(&self.labels) {
            let message =
                format!("Images and labels need streams of different names, not '{}'.", self.labels);
            return Err(
                Error::config(InvalidArgument, message).with_detail("Upper and lower case are the same.")
            );
        }
        self.transforms.iter().try_for_each(Transform::check)?;
        Section::parse_generated(self.name, &self.to_string())
    }
}

impl fmt::Display for ImageSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ImageSection { name, file, features, labels, draws, classes, keys, transforms } = self;
        writeln!(f, "[\n  type = \"{name}\"\n  module = \"ImageReader\"")?;
        writeln!(f, "  file = {}", quoted_path(file))?;
        keys.write(f, "  ")?;
        write!(f, "  input = [\n    {features} = [ transforms = (")?;
        for (number, transform) in transforms.iter().enumerate() {
            write!(f, "{}\n      {transform}", if number == 0 { "" } else { " :" })?;
        }
        write!(f, " ) ]\n    {labels} = [ labelDim = {classes} ]\n")?;
        if !draws.is_empty() {
            writeln!(f, "    {draws} = [ draw = true ]")?;
        }
        f.write_str("  ]\n")?;
        f.write_char(']')
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
                $name(ImageSection {
                    name: stringify!($name),
                    file: file.as_ref().to_owned(),
                    features: features.to_owned(),
                    labels: labels.to_owned(),
                    draws: String::new(),
                    classes,
                    keys: Keys::default(),
                    transforms: Vec::new(),
                })
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
                self.0.keys.set("grayscale", grayscale);
                self
            }

            /// Each image stands for ten sequences, the views of [`Crop::multi_view`] (`multiViewCrop`; default: false).
            #[must_use]
            pub fn multi_view(mut self, multi_view: bool) -> $name {
                self.0.keys.set("multiViewCrop", multi_view);
                self
            }

            /// Most columns times rows of an image that are decoded; a larger one is an error (`maxPixels`; default: 2^28).
            #[must_use]
            pub fn max_pixels(mut self, pixels: u64) -> $name {
                self.0.keys.set("maxPixels", pixels);
                self
            }

            /// Random transforms depend on nothing but their seed, the sweep and the sequence (`reproducibleTransforms`;
            /// default: false). Otherwise they draw what CNTK draws, which depends on all minibatches read before.
            #[must_use]
            pub fn reproducible_transforms(mut self, reproducible: bool) -> $name {
                self.0.keys.set("reproducibleTransforms", reproducible);
                self
            }

            pub(crate) fn section(&self) -> Result<Section> {
                self.0.section()
            }
        }

        /// The section that a configuration would have in `deserializers`.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
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
/// # assert!(images.to_string().contains("labels = [ labelDim = 1000 ]"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageDeserializer(ImageSection);

images!(ImageDeserializer);

/// Images in the lines of a file, encoded as Base64, with their classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base64ImageDeserializer(ImageSection);

images!(Base64ImageDeserializer);

impl Base64ImageDeserializer {
    /// Keeps the index in a file beside the data, in CNTK's format (`cacheIndex`; default: false).
    #[must_use]
    pub fn cache_index(mut self, cache: bool) -> Base64ImageDeserializer {
        self.0.keys.set("cacheIndex", cache);
        self
    }
}
