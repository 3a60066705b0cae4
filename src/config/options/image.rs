//! Settings of images and their transforms.

use crate::config::Section;
use crate::file::Confinement;
use crate::stream::ElementType;

/// Options of the deserializers of images.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageOptions {
    /// Path of the map file, or of the file with Base64 lines.
    pub file: String,
    /// Each line of `file` has the image itself, encoded as Base64.
    pub base64: bool,
    /// Name of the stream of images.
    pub features: String,
    /// What becomes of each image, in this order. The values are cast to `element` at the end.
    pub transforms: Vec<TransformOptions>,
    /// Name of the stream of labels.
    pub labels: String,
    /// Name of the stream of draws, if there is one: what the transforms show of each image
    /// (`draw`).
    pub draws: Option<String>,
    /// Number of classes: values of a label.
    pub label_dim: u64,
    /// Labels are dense vectors (`readerType = "ImageReader"`), not sparse ones.
    pub dense_labels: bool,
    /// Images are decoded to one channel (`grayscale`).
    pub grayscale: bool,
    /// Each line stands for ten sequences (`multiViewCrop`).
    pub multi_view: bool,
    /// Keep and use an index file beside the Base64 file (`cacheIndex`).
    pub cache_index: bool,
    /// What is logged (`verbosity`).
    pub verbosity: i32,
    /// Most columns times rows of an image that are decoded; a larger image is an error before memory is taken for it.
    pub max_pixels: u64,
    /// Random transforms depend on nothing but seed, sweep and sequence (`reproducibleTransforms`).
    pub reproducible: bool,
    /// Type of the values.
    pub element: ElementType,
    /// Where the paths may lead that the file names (`confinePaths`).
    pub confinement: Confinement,
    /// The reader stands in CNTK's place: what CNTK 2.7 scrambles or fails for stays as it is
    /// there.
    pub as_cntk: bool,
    /// The reader's `maxErrors`: images that may be left out.
    pub max_errors: u64,
}

/// A dense stream of a deserializer that is not for images, each of whose samples is an image of numbers: rows of pixels of
/// channels.
#[derive(Debug, Clone, PartialEq)]
pub struct TransformedStream {
    /// Number of the deserializer.
    pub deserializer: usize,
    /// Name of the stream.
    pub stream: String,
    /// Channels, columns and rows of a sample (`imageShape`); `None` if the stream has such a shape itself.
    pub image: Option<[usize; 3]>,
    /// What becomes of each sample, in this order.
    pub transforms: Vec<TransformOptions>,
    /// Random transforms depend on nothing but seed, sweep and sequence (`reproducibleTransforms`).
    pub reproducible: bool,
}

/// One transform.
#[derive(Debug, Clone, PartialEq)]
pub enum TransformOptions {
    /// `Crop`
    Crop(CropOptions),
    /// `Scale`
    Scale(ScaleOptions),
    /// `Mean`: the path of the file with the mean image; `None` changes nothing.
    Mean(Option<String>),
    /// `Color`
    Color(ColorOptions),
    /// `Intensity`
    Intensity(IntensityOptions),
    /// `Transpose`
    Transpose,
    /// `Cast`
    Cast,
    /// A transform of the user's own.
    User(UserTransformOptions),
}

/// Which part of an image is cut out.
#[derive(Debug, Clone, PartialEq)]
pub struct CropOptions {
    /// How the part is placed.
    pub kind: CropKind,
    /// `cropSize`: width and height. Used only if both are not 0.
    pub size: (u32, u32),
    /// How large it is otherwise.
    pub ratio: CropRatio,
    /// `aspectRatio`: from, to. (1, 1) keeps the ratio.
    pub aspect: (f64, f64),
    /// Ratios are drawn between their bounds (`jitterType = "uniratio"`); otherwise they are the lower bounds.
    pub jitter: bool,
    /// Half of the images are mirrored.
    pub flip: bool,
    /// Seed of the random draws.
    pub seed: u32,
}

/// How a crop is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CropKind {
    /// In the middle.
    Center,
    /// At random (`randomside` and `randomarea`).
    Random,
    /// `multiview10`: corners and middle, plain and mirrored, by the number of the copy.
    MultiView10,
}

/// Size of a crop beside that of the image. The bounds are single-precision numbers (CNTK 2.7).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CropRatio {
    /// All of the image.
    None,
    /// Of the shorter side: from, to.
    Side(f64, f64),
    /// Of the area: from, to.
    Area(f64, f64),
}

/// What size images get.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleOptions {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Declared number of channels.
    pub channels: u32,
    /// How values between pixels come about.
    pub interpolation: Interpolation,
    /// What becomes of an image with other proportions.
    pub mode: ScaleMode,
}

/// How values between pixels come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpolation {
    /// The pixel to the left and above.
    Nearest,
    /// Of 2 times 2 pixels.
    Linear,
    /// Of 4 times 4 pixels.
    Cubic,
    /// Of 8 times 8 pixels.
    Lanczos,
}

/// What becomes of an image that has other proportions than its new size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleMode {
    /// It is stretched.
    Fill,
    /// Its middle is taken.
    Crop,
    /// The rest is filled with this value; `None`: with the value at the border.
    Pad(Option<u32>),
}

/// How colors change at random. Each radius is from 0, no change, to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct ColorOptions {
    /// `brightnessRadius`
    pub brightness: f64,
    /// `contrastRadius`
    pub contrast: f64,
    /// `saturationRadius`
    pub saturation: f64,
    /// Seed of the random draws.
    pub seed: u32,
}

/// How the intensity changes at random, along the principal components of the colors.
#[derive(Debug, Clone, PartialEq)]
pub struct IntensityOptions {
    /// `intensityStdDev`; 0 changes nothing.
    pub std_dev: f64,
    /// `intensityFile`: path of the file with `EigVal` and `EigVec`; `None` changes nothing.
    pub file: Option<String>,
    /// Seed of the random draws.
    pub seed: u32,
}

/// A transform of the user's own.
#[derive(Debug, Clone, PartialEq)]
pub struct UserTransformOptions {
    /// The name that it was registered by, the section's `type`.
    pub name: String,
    /// Its section.
    pub section: Section,
}
