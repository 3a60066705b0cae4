//! What the transforms of a chain are going to do with one image.

use super::color::Change;
use super::crop::Cut;
use super::scale::Fit;
use super::view::{Frame, Maker};
use cntk_reader_core::image::{Drawn, Image, ImageInfo, Region};

/// What a transform is going to do with one image.
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

/// A step of a plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) step: Step,
    /// The view then becomes an image of its own.
    pub(super) cuts_out: bool,
}

/// What the transforms of a chain are going to do with one image. Its memory is used again for the next one.
#[derive(Debug)]
pub struct Plan {
    pub(super) steps: Vec<Planned>,
    /// Values of a pixel that the image has at first.
    pub(super) channels: u32,
    /// The image at first: the view of a larger one, or all of it.
    pub(super) window: Region,
    /// The part of the larger image that is decoded.
    pub(super) region: Region,
    /// What is cropped stays a view of the larger image, as in CNTK 2.7. Samples that CNTK does not transform are cut out.
    pub(super) keeps_views: bool,
    /// The last step's view is left in the larger image, for the next chain.
    pub(super) leaves_view: bool,
    pub(super) result: ImageInfo,
    /// The part of the planned image that is shown in the end.
    pub(super) drawn: Drawn,
    /// Channels of the stream, if the image has more.
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
    /// The part of the decoded image that the chain needs: what crops take, if nothing comes before
    /// them, and what the padding after them takes from around that.
    /// [`Chain::apply`](super::Chain::apply) gets that part alone.
    pub fn region(&self) -> Region {
        self.region
    }

    /// What the image is in the end.
    pub fn result(&self) -> ImageInfo {
        self.result
    }

    /// The part of the planned image that is shown in the end.
    pub(crate) fn drawn(&self) -> Drawn {
        self.drawn
    }

    /// Says which part is made of the image that a view is a part of.
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

    /// Says what a step of padding takes from around the view.
    pub(super) fn pad_from(&mut self, place: usize, source: Region) {
        if let Some(Step::Scale(Fit { padding: Some(padding), .. })) = self.step(place) {
            padding.source = source;
        }
    }

    /// Says that the view becomes an image of its own after a step.
    pub(super) fn cut_out(&mut self, place: usize) {
        self.steps.iter_mut().skip(place).take(1).for_each(|planned| planned.cuts_out = true);
    }

    fn step(&mut self, place: usize) -> Option<&mut Step> {
        self.steps.get_mut(place).map(|planned| &mut planned.step)
    }

    /// Leaves of an image that has more channels than its stream as many values as the stream's shape has (CNTK 2.7): the first
    /// ones, pixel after pixel.
    pub(super) fn leave_declared(&self, image: &mut Image) {
        if let Some(channels) = self.declared.filter(|&channels| channels < image.channels) {
            image.channels = channels;
            image.pixels.truncate(image.info().values());
        }
    }
}
