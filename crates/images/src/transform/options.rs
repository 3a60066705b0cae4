//! Options of transforms.

/// One transform.
#[derive(Debug, Clone, PartialEq)]
pub enum TransformOptions {
    /// `Crop`
    Crop(CropOptions),
    /// `Scale`
    Scale(ScaleOptions),
    /// `Mean`: the path of the file with the mean image; `None` disables the transform.
    Mean(Option<String>),
    /// `Color`
    Color(ColorOptions),
    /// `Intensity`
    Intensity(IntensityOptions),
    /// `Transpose`
    Transpose,
    /// `Cast`
    Cast,
    /// A user-defined transform.
    User(UserTransformOptions),
}

/// Options of `Crop`.
#[derive(Debug, Clone, PartialEq)]
pub struct CropOptions {
    /// Placement of the crop.
    pub kind: CropKind,
    /// `cropSize`: width and height. Used only if both are not 0.
    pub size: (u32, u32),
    /// The size otherwise.
    pub ratio: CropRatio,
    /// `aspectRatio`: lower and upper bound. (1, 1) keeps the ratio.
    pub aspect: (f64, f64),
    /// Ratios are drawn between their bounds (`jitterType = "uniratio"`); otherwise the lower bound
    /// is used.
    pub jitter: bool,
    /// Mirror half of the images.
    pub flip: bool,
    /// Seed of the random draws.
    pub seed: u32,
}

/// Placement of a crop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CropKind {
    /// In the middle.
    Center,
    /// At random (`randomside` and `randomarea`).
    Random,
    /// `multiview10`: corners and middle, plain and mirrored, selected by the number of the view.
    MultiView10,
}

/// Size of a crop relative to the image. The bounds are single-precision numbers (CNTK 2.7).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CropRatio {
    /// The whole image.
    None,
    /// Relative to the shorter side: lower and upper bound.
    Side(f64, f64),
    /// Relative to the area: lower and upper bound.
    Area(f64, f64),
}

/// Options of `Scale`.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleOptions {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Declared number of channels.
    pub channels: u32,
    /// Interpolation between pixels.
    pub interpolation: Interpolation,
    /// Treatment of images with a different aspect ratio.
    pub mode: ScaleMode,
}

/// Interpolation between pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpolation {
    /// The pixel to the left and above.
    Nearest,
    /// From 2 by 2 pixels.
    Linear,
    /// From 4 by 4 pixels.
    Cubic,
    /// From 8 by 8 pixels.
    Lanczos,
}

/// Treatment of images whose aspect ratio differs from that of the new size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleMode {
    /// Stretch the image.
    Fill,
    /// Take the middle.
    Crop,
    /// Fill the rest with this value, or if `None` with the border's values.
    Pad(Option<u32>),
}

/// Options of `Color`. Each radius is from 0 (no change) to 1.
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

/// Options of `Intensity`.
#[derive(Debug, Clone, PartialEq)]
pub struct IntensityOptions {
    /// `intensityStdDev`; 0 disables the transform.
    pub std_dev: f64,
    /// `intensityFile`: path of the file with `EigVal` and `EigVec`; `None` disables the transform.
    pub file: Option<String>,
    /// Seed of the random draws.
    pub seed: u32,
}

/// Options of a user-defined transform.
#[derive(Debug, Clone, PartialEq)]
pub struct UserTransformOptions {
    /// The name under which it is registered, the section's `type`.
    pub name: String,
    /// Seed of the random draws.
    pub seed: u32,
}
