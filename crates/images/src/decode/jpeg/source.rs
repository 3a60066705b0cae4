//! The bytes of a JPEG file, its markers, and the bits between them.

/// Start of image.
pub const SOI: u8 = 0xD8;
/// End of image.
pub const EOI: u8 = 0xD9;
/// First of the eight restart markers.
pub const RST0: u8 = 0xD0;
/// First frame marker; smaller codes are unused.
const SOF0: u8 = 0xC0;

/// A sequential reader of a file's bytes.
///
/// Past the end of the file it supplies end-of-image markers forever, as libjpeg does for truncated
/// files. So callers need not check for the end, and every search for a marker succeeds.
#[derive(Debug, Clone, Copy)]
pub struct ByteReader<'a> {
    data: &'a [u8],
    position: usize,
}

impl<'a> ByteReader<'a> {
    /// Starts at the first byte.
    pub fn new(data: &'a [u8]) -> ByteReader<'a> {
        ByteReader { data, position: 0 }
    }

    /// Reads the next byte.
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

    /// Returns the unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.data.get(self.position..).unwrap_or_default()
    }

    /// Returns whether more bytes were read than the file has.
    pub fn is_past_end(&self) -> bool {
        self.position > self.data.len()
    }

    /// Reads a big-endian `u16`.
    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Skips bytes.
    pub fn skip(&mut self, bytes: usize) {
        self.position = self.position.saturating_add(bytes);
    }

    /// Returns the next `bytes` bytes, or fewer at the end of the file, without consuming them.
    pub fn peek(&self, bytes: usize) -> &'a [u8] {
        let rest = self.rest();
        &rest[..bytes.min(rest.len())]
    }

    /// Skips to the next marker and reads it.
    pub fn marker(&mut self) -> u8 {
        self.marker_after().0
    }

    /// Reads the next marker. Also returns whether other bytes had to be skipped before it.
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

    /// Reads a byte of entropy-coded data, or the marker that ends them. In the data, FF is stored
    /// as FF 00.
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

/// Warnings of libjpeg-turbo, as bit flags. They are not counted, because the counts depend on how
/// much of an image is decoded.
pub mod fault {
    /// A Huffman code that is not in the tables.
    pub const BAD_CODE: u8 = 1;
    /// The data of a scan or a restart interval end too early.
    pub const SHORT: u8 = 2;
    /// Extraneous bytes before a marker.
    pub const EXTRANEOUS: u8 = 4;
    /// A restart marker other than the expected one.
    pub const RESTART: u8 = 8;
    /// The file ends before the image does.
    pub const END_OF_FILE: u8 = 16;
}

/// Position in entropy-coded data, with the marker that ended them, if it has been reached.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The unread bytes.
    pub source: ByteReader<'a>,
    /// The marker that has been read but not processed; 0 if none.
    pub marker: u8,
    /// Number of the next restart marker, 0 to 7.
    next_restart: u8,
    /// Faults so far: see [`fault`].
    pub faults: u8,
}

impl<'a> Segment<'a> {
    /// Starts at the first byte of a scan's entropy-coded data.
    pub fn new(source: ByteReader<'a>) -> Segment<'a> {
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

    /// Consumes the expected restart marker.
    ///
    /// A different marker means that a restart interval or a marker is damaged. libjpeg's rules
    /// apply: a marker that belongs further on stays unread, and the data before it count as
    /// missing; one that should have come earlier is skipped.
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
                // Skip earlier restart markers and codes that are not markers.
                None | Some(6 | 7) => self.marker = self.source.marker(),
                // The expected marker, or one too far off to mean anything.
                _ => {
                    self.marker = 0;
                    return;
                }
            }
        }
    }
}

/// A bit reader for entropy-coded data. Supplies zeros after the end of the data.
#[derive(Debug, Clone, Copy)]
pub struct Bits<'a> {
    /// The source of the bytes.
    pub segment: Segment<'a>,
    /// The next bits, most significant first. The bits after the first `count` are 0 or upcoming
    /// data.
    buffer: u64,
    /// Number of valid bits in `buffer`.
    count: u32,
    /// Number of padding bits among them, at the end.
    padding: u32,
    /// Padding bits were consumed.
    overrun: bool,
}

impl<'a> Bits<'a> {
    /// Minimum number of bits that [`Bits::refill`] provides.
    pub const REFILLED: u32 = 33;

    /// Starts at the first byte of the data.
    pub fn new(source: ByteReader<'a>) -> Bits<'a> {
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
            // True if no byte is FF, i.e. no byte of the complement is 0.
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

    /// Returns the next `count` bits, 1 to 32, without consuming them.
    #[inline(always)]
    pub fn peek(&self, count: u32) -> u32 {
        (self.buffer >> (64 - count)) as u32
    }

    /// Skips `count` bits, fewer than 64.
    #[inline(always)]
    pub fn skip(&mut self, count: u32) {
        self.buffer <<= count;
        self.count = self.count.wrapping_sub(count);
    }

    /// Reads `count` bits, 1 to 32.
    #[inline(always)]
    pub fn take(&mut self, count: u32) -> u32 {
        let bits = self.peek(count);
        self.skip(count);
        bits
    }

    /// Reads a bit, after a refill if necessary.
    #[inline(always)]
    pub fn bit(&mut self) -> bool {
        self.refill();
        self.take(1) != 0
    }

    /// Returns whether more bits were consumed than the data have.
    #[inline(always)]
    pub fn has_overrun(&self) -> bool {
        self.overrun || self.count < self.padding
    }

    /// Records a code that is not in the tables.
    pub fn note_bad_code(&mut self) {
        self.segment.faults |= fault::BAD_CODE;
    }

    /// Records faults at the end of the data that were read.
    pub fn note_end(&mut self, missing: bool) {
        if missing || self.has_overrun() {
            self.segment.faults |= fault::SHORT;
        } else if self.count.saturating_sub(self.padding) >= 8 {
            self.segment.faults |= fault::EXTRANEOUS;
        }
    }

    /// Continues after the next restart marker.
    pub fn restart(&mut self) {
        let overrun = self.has_overrun();
        self.note_end(false);
        self.segment.restart();
        // If the next interval starts with a marker, its data are missing too.
        let overrun = overrun && self.segment.marker != 0;
        *self = Bits { segment: self.segment, buffer: 0, count: 0, padding: 0, overrun };
    }
}

/// Refills near an FF byte or the end. Takes `bits` by value so that the caller can keep it in
/// registers.
#[cold]
#[inline(never)]
fn refill_slowly(mut bits: Bits<'_>) -> Bits<'_> {
    if bits.count < bits.padding {
        bits.overrun = true;
        bits.padding = bits.count;
    }
    // Bits past `count` may be data read ahead by the fast path; they are read again.
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
