//! The bytes of a JPEG file, its markers, and the bits between them.

/// Start of image.
pub const SOI: u8 = 0xD8;
/// End of image.
pub const EOI: u8 = 0xD9;
/// First of eight markers that restart the entropy decoder.
pub const RST0: u8 = 0xD0;
/// First marker of a frame; smaller ones are not used.
const SOF0: u8 = 0xC0;

/// The bytes of a file, read one after the other. Past the end of the file, end-of-image markers follow without end, as
/// libjpeg supplies them for files that are cut off. So nothing that reads from here has to check for the end, and
/// everything that looks for a marker finds one.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    data: &'a [u8],
    position: usize,
}

impl<'a> Source<'a> {
    /// Begins at the first byte.
    pub fn new(data: &'a [u8]) -> Source<'a> {
        Source { data, position: 0 }
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> u8 {
        let byte = match self.data.get(self.position) {
            Some(&byte) => byte,
            None if (self.position - self.data.len()).is_multiple_of(2) => 0xFF,
            None => EOI,
        };
        self.position = self.position.saturating_add(1);
        byte
    }

    /// The bytes that follow.
    pub fn rest(&self) -> &'a [u8] {
        self.data.get(self.position..).unwrap_or_default()
    }

    /// More was read than the file has.
    pub fn is_past_end(&self) -> bool {
        self.position > self.data.len()
    }

    /// A number of two bytes, most significant first.
    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Passes over bytes.
    pub fn skip(&mut self, bytes: usize) {
        self.position = self.position.saturating_add(bytes);
    }

    /// The next `bytes` bytes, as far as the file has them, without passing over them.
    pub fn peek(&self, bytes: usize) -> &'a [u8] {
        let rest = self.rest();
        &rest[..bytes.min(rest.len())]
    }

    /// The next marker. Whatever lies before it is passed over.
    pub fn marker(&mut self) -> u8 {
        self.marker_after().0
    }

    /// The next marker, and whether something that is no marker was passed over before it.
    pub fn marker_after(&mut self) -> (u8, bool) {
        let mut passed = false;
        loop {
            while self.byte() != 0xFF {
                passed = true;
            }
            let mut code = self.byte();
            while code == 0xFF {
                code = self.byte();
            }
            if code != 0 {
                return (code, passed);
            }
            passed = true;
        }
    }

    /// A byte of entropy-coded data, or the marker that ends them. Bytes FF are followed by 0 there.
    #[inline]
    pub fn coded_byte(&mut self) -> Result<u8, u8> {
        let byte = self.byte();
        if byte != 0xFF {
            return Ok(byte);
        }
        loop {
            match self.byte() {
                0xFF => {}
                0 => return Ok(0xFF),
                marker => return Err(marker),
            }
        }
    }
}

/// Kinds of warnings that libjpeg-turbo gives for an image: bits of a number. Counts are not kept,
/// because they depend on how far an image is decoded.
pub mod fault {
    /// A Huffman code that the tables do not have.
    pub const BAD_CODE: u8 = 1;
    /// The data of a scan, or of a part of it, end too early.
    pub const SHORT: u8 = 2;
    /// Bytes before a marker that belong to nothing.
    pub const EXTRANEOUS: u8 = 4;
    /// Another restart marker than the one that is due.
    pub const RESTART: u8 = 8;
    /// The file ends before the image does.
    pub const END_OF_FILE: u8 = 16;
}

/// Where entropy-coded data stand: the source, and the marker that ended them, if it has been reached.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// What follows.
    pub source: Source<'a>,
    /// The marker that has been read, but not yet been dealt with; 0 if there is none.
    pub marker: u8,
    /// Number of the next restart marker, 0 to 7.
    next_restart: u8,
    /// Faults so far: see [`fault`].
    pub faults: u8,
}

impl<'a> Segment<'a> {
    /// The entropy-coded data of a scan begin here.
    pub fn new(source: Source<'a>) -> Segment<'a> {
        Segment { source, marker: 0, next_restart: 0, faults: 0 }
    }

    /// Finds the marker that ends the data.
    pub fn find_marker(&mut self) {
        let (marker, passed) = self.source.marker_after();
        self.marker = marker;
        if passed {
            self.faults |= fault::EXTRANEOUS;
        }
    }

    /// Passes over the restart marker that is expected now. Where another marker stands, one of the data's segments or
    /// some of its markers must be damaged. The rules for going on are libjpeg's: a marker that could only come later stays
    /// unread, and the data up to it count as missing; one that should have come before is passed over.
    pub fn restart(&mut self) {
        if self.marker == 0 {
            self.find_marker();
        }
        let wanted = self.next_restart;
        self.next_restart = (wanted + 1) % 8;
        loop {
            let ahead = match self.marker {
                marker if marker < SOF0 => None,
                marker @ RST0..=0xD7 => Some((marker - RST0 + 8 - wanted) % 8),
                _ => {
                    self.faults |= fault::RESTART;
                    return;
                }
            };
            if ahead != Some(0) {
                self.faults |= fault::RESTART;
            }
            match ahead {
                Some(1 | 2) => return,
                // Earlier ones, and codes that are no markers, are passed over.
                None | Some(6 | 7) => self.marker = self.source.marker(),
                // The wanted one, or one so far off that its number means nothing.
                _ => {
                    self.marker = 0;
                    return;
                }
            }
        }
    }
}

/// Reads entropy-coded data bit by bit. When the data have ended, zero bits follow.
#[derive(Debug, Clone, Copy)]
pub struct Bits<'a> {
    /// Where the bytes come from.
    pub segment: Segment<'a>,
    /// The next bits, the first one topmost. Those past `count` are 0 or what follows in the data.
    buffer: u64,
    /// Number of bits in `buffer`.
    count: u32,
    /// Number of bits at the end of `buffer` that are no data.
    padding: u32,
    /// Bits were used that are no data.
    overrun: bool,
}

impl<'a> Bits<'a> {
    /// Number of bits that [`Bits::refill`] provides at least.
    pub const REFILLED: u32 = 33;

    /// The data begin here.
    pub fn new(source: Source<'a>) -> Bits<'a> {
        Bits { segment: Segment::new(source), buffer: 0, count: 0, padding: 0, overrun: false }
    }

    /// Makes at least [`Bits::REFILLED`] bits available.
    #[inline(always)]
    pub fn refill(&mut self) {
        if self.count >= Bits::REFILLED {
            return;
        }
        let source = &mut self.segment.source;
        if self.segment.marker == 0
            && let Some(&bytes) = source.data.get(source.position..).and_then(|rest| rest.first_chunk::<8>())
        {
            let word = u64::from_be_bytes(bytes);
            // No byte is FF: no byte of the complement is 0.
            let complement = !word;
            if complement.wrapping_sub(0x0101_0101_0101_0101) & word & 0x8080_8080_8080_8080 == 0 {
                self.buffer |= word >> self.count;
                let bytes = (63 - self.count) / 8;
                source.position += bytes as usize;
                self.count += 8 * bytes;
                return;
            }
        }
        *self = refill_slowly(*self);
    }

    /// The next `count` bits, 1 to 32.
    #[inline(always)]
    pub fn peek(&self, count: u32) -> u32 {
        (self.buffer >> (64 - count)) as u32
    }

    /// Passes over `count` bits, fewer than 64.
    #[inline(always)]
    pub fn skip(&mut self, count: u32) {
        self.buffer <<= count;
        self.count = self.count.wrapping_sub(count);
    }

    /// The next `count` bits, 1 to 32, and passes over them.
    #[inline(always)]
    pub fn take(&mut self, count: u32) -> u32 {
        let bits = self.peek(count);
        self.skip(count);
        bits
    }

    /// The next bit, after a refill if that is needed.
    #[inline(always)]
    pub fn bit(&mut self) -> bool {
        self.refill();
        self.take(1) != 0
    }

    /// More bits were used than the data have.
    #[inline(always)]
    pub fn has_overrun(&self) -> bool {
        self.overrun || self.count < self.padding
    }

    /// Notes a code that the tables do not have.
    pub fn note_bad_code(&mut self) {
        self.segment.faults |= fault::BAD_CODE;
    }

    /// Notes what is wrong with the end of the data that were read.
    pub fn note_end(&mut self, missing: bool) {
        if missing || self.has_overrun() {
            self.segment.faults |= fault::SHORT;
        } else if self.count.saturating_sub(self.padding) >= 8 {
            self.segment.faults |= fault::EXTRANEOUS;
        }
    }

    /// Goes on after the next restart marker.
    pub fn restart(&mut self) {
        let overrun = self.has_overrun();
        self.note_end(false);
        self.segment.restart();
        // Data that begin with a marker are missing, as before.
        let overrun = overrun && self.segment.marker != 0;
        *self = Bits { segment: self.segment, buffer: 0, count: 0, padding: 0, overrun };
    }
}

/// Refills where a byte FF is near, or the end. By value, so that a caller can keep its bits in registers.
#[cold]
#[inline(never)]
fn refill_slowly(mut bits: Bits<'_>) -> Bits<'_> {
    if bits.count < bits.padding {
        bits.overrun = true;
        bits.padding = bits.count;
    }
    // Bits past `count` may be data that were read ahead: they are read again.
    bits.buffer = if bits.count == 0 { 0 } else { bits.buffer & (u64::MAX << (64 - bits.count)) };
    while bits.count <= 56 {
        let mut byte = 0;
        if bits.segment.marker == 0 {
            match bits.segment.source.coded_byte() {
                Ok(found) => byte = found,
                Err(marker) => bits.segment.marker = marker,
            }
        }
        if bits.segment.marker != 0 {
            bits.padding += 8;
        }
        bits.buffer |= u64::from(byte) << (56 - bits.count);
        bits.count += 8;
    }
    bits
}
