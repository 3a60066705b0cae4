//! Options of transforms.

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
    /// Ratios are drawn between their bounds (`jitterType = "uniratio"`); otherwise they are the
    /// lower bounds.
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
    /// Seed of the random draws.
    pub seed: u32,
}
