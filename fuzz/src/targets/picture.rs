//! Shared code of the targets for picture formats: each decodes a picture, whole and in part, from
//! files and memory, with each instruction set.

use crate::case::split;
use cntk_reader_core::fuzzing::{instruction_sets, leave_out_instruction_sets};
use cntk_reader_core::image::{Image, Pixels, Region};
use cntk_reader_images::decode::{DecodeOptions, Decoder, WebpChannels};
use std::cell::RefCell;

/// Maximum number of pixels of a decoded picture.
const PIXELS: u64 = 1 << 20;

thread_local! {
    /// A decoder reuses its memory for the next picture, which earlier contents must not affect.
    static USED: RefCell<Decoder> = RefCell::default();
}

/// Decodes the content if it has the signature of the format: other formats have their own targets.
pub fn run(input: &[u8], is_format: impl FnOnce(&[u8]) -> bool) {
    let (mut choices, content) = split(input);
    if !is_format(content) {
        return;
    }
    let options = DecodeOptions {
        grayscale: choices.once_in(3),
        orient: choices.once_in(2),
        in_memory: choices.once_in(2),
        max_pixels: PIXELS,
        webp: [WebpChannels::AsAsked, WebpChannels::WithAlpha, WebpChannels::AsStored]
            [usize::from(choices.once_in(2)) + usize::from(choices.once_in(2))],
    };
    let Ok(header) = Decoder::default().header(content, &options) else { return };
    let whole =
        decode(&mut Decoder::default(), content, &options, Region::whole(header.width, header.height));
    for number in 1..instruction_sets() {
        leave_out_instruction_sets(number);
        let again =
            decode(&mut Decoder::default(), content, &options, Region::whole(header.width, header.height));
        leave_out_instruction_sets(0);
        assert!(again == whole, "set of instructions {number} differs");
    }
    let mut below = |end: u32| choices.below(end as usize) as u32;
    let (left, top) = (below(header.width), below(header.height));
    let (width, height) = (1 + below(header.width - left), 1 + below(header.height - top));
    let region = Region { left, top, width, height };
    let part = USED.with_borrow_mut(|decoder| decode(decoder, content, &options, region));
    // Only one of them may fail, because damage may lie outside of the region.
    let (Ok(whole), Ok(part)) = (whole, part) else { return };
    let (row, all) = ((width * header.channels) as usize, (header.width * header.channels) as usize);
    for (y, found) in bytes(&part).chunks_exact(row).enumerate() {
        let start = (top as usize + y) * all + (left * header.channels) as usize;
        assert!(found == &bytes(&whole)[start..start + row], "{region:?} differs in row {y}");
    }
}

fn decode(
    decoder: &mut Decoder,
    content: &[u8],
    options: &DecodeOptions,
    region: Region,
) -> Result<Image, String> {
    let mut image = Image::default();
    match decoder.decode(content, options, region, &mut image) {
        Ok(()) => Ok(image),
        Err(error) => {
            assert!(!error.message.is_empty(), "no message");
            Err(error.message)
        }
    }
}

fn bytes(image: &Image) -> &[u8] {
    match &image.pixels {
        Pixels::Bytes(bytes) => bytes,
        _ => &[],
    }
}
