//! The plan of a chain of transforms for one image.

use super::color::Change;
use super::crop::Cut;
use super::scale::Fit;
use super::view::{Frame, Maker};
use cntk_reader_core::image::{Drawn, Image, ImageInfo, Region};

/// The action of a transform on one image.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
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
        drawn: Drawn,
        result: ImageInfo,
    },
}

/// A step of a plan, and its effect on the view.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) step: Step,
    /// Afterwards the view is cut out as a separate image.
    pub(super) cuts_out: bool,
}

/// The plan of a chain of transforms for one image. Its memory is reused for the next one.
#[derive(Debug)]
pub struct Plan {
    pub(super) steps: Vec<Planned>,
    /// Values per pixel of the initial image.
    pub(super) channels: u32,
    /// The initial image: a view of a larger one, or all of it.
    pub(super) window: Region,
    /// The decoded part of the larger image.
    pub(super) region: Region,
    /// A crop remains a view of the larger image, as in CNTK 2.7. False for samples that CNTK does
    /// not transform: they are cut out.
    pub(super) keeps_views: bool,
    /// The final view remains in the larger image, for the next chain.
    pub(super) leaves_view: bool,
    pub(super) result: ImageInfo,
    /// The part of the planned image that is visible in the end.
    pub(super) drawn: Drawn,
    /// Number of channels of the stream, if the image has more.
    pub(super) declared: Option<u32>,
}

impl Default for Plan {
    fn default() -> Plan {
        let (whole, result) = (Region::whole(0, 0), ImageInfo::decoded(0, 0, 0));
        Plan {
            steps: Vec::new(),
            channels: 0,
            window: whole,
            region: whole,
            keeps_views: true,
            leaves_view: false,
            result,
            drawn: Drawn::whole(0, 0),
            declared: None,
        }
    }
}

impl Plan {
    /// Returns the part of the decoded image that the chain needs: the crops, if nothing precedes
    /// them, and the surroundings that padding after them reads.
    /// [`Chain::apply`](super::Chain::apply) gets only that part.
    pub fn region(&self) -> Region {
        self.region
    }

    /// Returns size and type of the final image.
    pub fn result(&self) -> ImageInfo {
        self.result
    }

    /// Returns the part of the planned image that is visible in the end.
    pub(crate) fn drawn(&self) -> Drawn {
        self.drawn
    }

    /// Records which part of the frame's image must be produced.
    pub(super) fn make(&mut self, frame: &Frame) {
        match frame.maker {
            Maker::Decoder => self.region = frame.made(),
            Maker::Resize(place) => {
                if let Some(Step::Scale(Fit { resize: Some(resize), .. })) = self.step(place) {
                    resize.cut = frame.made();
                }
            }
            Maker::Other => {}
        }
    }

    /// Records the pixels around the view that a padding step reads.
    pub(super) fn pad_from(&mut self, place: usize, source: Region) {
        if let Some(Step::Scale(Fit { padding: Some(padding), .. })) = self.step(place) {
            padding.source = source;
        }
    }

    /// Records that the view is cut out as a separate image after a step.
    pub(super) fn cut_out(&mut self, place: usize) {
        self.steps.iter_mut().skip(place).take(1).for_each(|planned| planned.cuts_out = true);
    }

    fn step(&mut self, place: usize) -> Option<&mut Step> {
        self.steps.get_mut(place).map(|planned| &mut planned.step)
    }

    /// Truncates an image with more channels than its stream to the number of values of the
    /// stream's shape (CNTK 2.7): the first ones, pixel by pixel.
    pub(super) fn leave_declared(&self, image: &mut Image) {
        if let Some(channels) = self.declared.filter(|&channels| channels < image.channels) {
            image.channels = channels;
            image.pixels.truncate(image.info().values());
        }
    }
}
