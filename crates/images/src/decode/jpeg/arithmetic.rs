//! Arithmetic decoding of sequential and progressive images (ITU-T T.81, annexes D, F.1.4 and
//! G.1.3). Registers and bins have the names and numbers of the standard.

use super::frame::{Definitions, Scan};
use super::scan::EntropyDecoder;
use super::source::{ByteReader, Segment, fault};
use super::tables::place;

/// Table D.3 by index: the probability `Qe` of the less probable symbol, the next index after the
/// less and after the more probable symbol, and whether the less probable symbol swaps the two.
#[rustfmt::skip]
const ESTIMATES: [(u16, u8, u8, u8); 113] = [
    (0x5a1d, 1, 1, 1), (0x2586, 14, 2, 0), (0x1114, 16, 3, 0), (0x080b, 18, 4, 0), (0x03d8, 20, 5, 0), (0x01da, 23, 6, 0),
    (0x00e5, 25, 7, 0), (0x006f, 28, 8, 0), (0x0036, 30, 9, 0), (0x001a, 33, 10, 0), (0x000d, 35, 11, 0), (0x0006, 9, 12, 0),
    (0x0003, 10, 13, 0), (0x0001, 12, 13, 0), (0x5a7f, 15, 15, 1), (0x3f25, 36, 16, 0), (0x2cf2, 38, 17, 0), (0x207c, 39, 18, 0),
    (0x17b9, 40, 19, 0), (0x1182, 42, 20, 0), (0x0cef, 43, 21, 0), (0x09a1, 45, 22, 0), (0x072f, 46, 23, 0), (0x055c, 48, 24, 0),
    (0x0406, 49, 25, 0), (0x0303, 51, 26, 0), (0x0240, 52, 27, 0), (0x01b1, 54, 28, 0), (0x0144, 56, 29, 0), (0x00f5, 57, 30, 0),
    (0x00b7, 59, 31, 0), (0x008a, 60, 32, 0), (0x0068, 62, 33, 0), (0x004e, 63, 34, 0), (0x003b, 32, 35, 0), (0x002c, 33, 9, 0),
    (0x5ae1, 37, 37, 1), (0x484c, 64, 38, 0), (0x3a0d, 65, 39, 0), (0x2ef1, 67, 40, 0), (0x261f, 68, 41, 0), (0x1f33, 69, 42, 0),
    (0x19a8, 70, 43, 0), (0x1518, 72, 44, 0), (0x1177, 73, 45, 0), (0x0e74, 74, 46, 0), (0x0bfb, 75, 47, 0), (0x09f8, 77, 48, 0),
    (0x0861, 78, 49, 0), (0x0706, 79, 50, 0), (0x05cd, 48, 51, 0), (0x04de, 50, 52, 0), (0x040f, 50, 53, 0), (0x0363, 51, 54, 0),
    (0x02d4, 52, 55, 0), (0x025c, 53, 56, 0), (0x01f8, 54, 57, 0), (0x01a4, 55, 58, 0), (0x0160, 56, 59, 0), (0x0125, 57, 60, 0),
    (0x00f6, 58, 61, 0), (0x00cb, 59, 62, 0), (0x00ab, 61, 63, 0), (0x008f, 61, 32, 0), (0x5b12, 65, 65, 1), (0x4d04, 80, 66, 0),
    (0x412c, 81, 67, 0), (0x37d8, 82, 68, 0), (0x2fe8, 83, 69, 0), (0x293c, 84, 70, 0), (0x2379, 86, 71, 0), (0x1edf, 87, 72, 0),
    (0x1aa9, 87, 73, 0), (0x174e, 72, 74, 0), (0x1424, 72, 75, 0), (0x119c, 74, 76, 0), (0x0f6b, 74, 77, 0), (0x0d51, 75, 78, 0),
    (0x0bb6, 77, 79, 0), (0x0a40, 77, 48, 0), (0x5832, 80, 81, 1), (0x4d1c, 88, 82, 0), (0x438e, 89, 83, 0), (0x3bdd, 90, 84, 0),
    (0x34ee, 91, 85, 0), (0x2eae, 92, 86, 0), (0x299a, 93, 87, 0), (0x2516, 86, 71, 0), (0x5570, 88, 89, 1), (0x4ca9, 95, 90, 0),
    (0x44d9, 96, 91, 0), (0x3e22, 97, 92, 0), (0x3824, 99, 93, 0), (0x32b4, 99, 94, 0), (0x2e17, 93, 86, 0), (0x56a8, 95, 96, 1),
    (0x4f46, 101, 97, 0), (0x47e5, 102, 98, 0), (0x41cf, 103, 99, 0), (0x3c3d, 104, 100, 0), (0x375e, 99, 93, 0), (0x5231, 105, 102, 0),
    (0x4c0f, 106, 103, 0), (0x4639, 107, 104, 0), (0x415e, 103, 99, 0), (0x5627, 105, 106, 1), (0x50e7, 108, 107, 0), (0x4b85, 109, 103, 0),
    (0x5597, 110, 109, 0), (0x504f, 111, 107, 0), (0x5a10, 110, 111, 1), (0x5522, 112, 109, 0), (0x59eb, 112, 111, 1),
];

/// The adaptive state of one binary decision: its more probable symbol and the probability
/// estimate.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    /// Index in [`ESTIMATES`].
    index: u8,
    /// The more probable symbol (MPS).
    more_probable: bool,
}

/// Fixed probability for signs and refinement bits.
const EVEN: u16 = 0x5a1d;

/// The decoder of binary decisions (D.2).
struct Coder<'a> {
    segment: Segment<'a>,
    /// Register C; its upper 16 bits, `Cx`, are compared with the interval.
    c: u32,
    /// Register A, the interval's width.
    a: u32,
    /// Shifts until the next byte is needed.
    ct: u32,
}

impl<'a> Coder<'a> {
    /// `Initdec`
    fn new(segment: Segment<'a>) -> Coder<'a> {
        let mut coder = Coder { segment, c: 0, a: 0x10000, ct: 0 };
        coder.byte_in();
        coder.c <<= 8;
        coder.byte_in();
        coder.c <<= 8;
        coder
    }

    /// `Byte_in`; supplies zeros past the end of the data.
    fn byte_in(&mut self) {
        if self.segment.marker != 0 {
            return;
        }
        match self.segment.source.coded_byte() {
            Ok(byte) => self.c += u32::from(byte) << 8,
            Err(marker) => self.segment.marker = marker,
        }
    }

    /// `Renorm_d`
    fn renormalize(&mut self) {
        loop {
            if self.ct == 0 {
                self.byte_in();
                self.ct = 8;
            }
            self.a <<= 1;
            self.c <<= 1;
            self.ct -= 1;
            if self.a >= 0x8000 {
                return;
            }
        }
    }

    /// `Decode` without the adaptation. Returns whether the symbol is the less probable one, and
    /// whether the estimate must be updated.
    #[inline]
    fn is_less_probable(&mut self, qe: u16) -> (bool, bool) {
        let qe = u32::from(qe);
        self.a -= qe;
        if self.c >> 16 < self.a {
            if self.a >= 0x8000 {
                return (false, false);
            }
            // `Cond_MPS_exchange`: the smaller part of the interval belongs to the less probable
            // symbol.
            let is_less = self.a < qe;
            self.renormalize();
            (is_less, true)
        } else {
            // `Cond_LPS_exchange`
            let is_less = self.a >= qe;
            self.c -= self.a << 16;
            self.a = qe;
            self.renormalize();
            (is_less, true)
        }
    }

    /// Decodes a decision and adapts its bin.
    #[inline]
    fn decide(&mut self, bin: &mut Bin) -> bool {
        // Indices come from the table itself, so the lookup never fails.
        let Some(&(qe, after_less, after_more, switches)) = ESTIMATES.get(usize::from(bin.index)) else {
            return false;
        };
        let (is_less, adapts) = self.is_less_probable(qe);
        let value = bin.more_probable ^ is_less;
        if adapts {
            bin.index = if is_less { after_less } else { after_more };
            bin.more_probable ^= is_less && switches == 1;
        }
        value
    }

    /// Decodes a decision between two equally probable symbols.
    fn decide_evenly(&mut self) -> bool {
        self.is_less_probable(EVEN).0
    }

    /// Decodes the magnitude of a nonzero value (F.2.4.3.1).
    ///
    /// Bin `first` decides whether it exceeds 1, `second` whether it exceeds 2, the bins from
    /// `ladder` on (X2 ...) its number of bits, and the bins 14 further on (M2 ...) the bits
    /// themselves. `None` if it has more than 15 bits, which no encoder writes.
    fn magnitude(&mut self, bins: &mut [Bin], first: usize, second: usize, ladder: usize) -> Option<i32> {
        if !self.decide(&mut bins[first]) {
            return Some(1);
        }
        if !self.decide(&mut bins[second]) {
            return Some(2);
        }
        let (mut bin, mut top) = (ladder, 2);
        while self.decide(&mut bins[bin]) {
            (bin, top) = (bin + 1, 2 * top);
            if top == 1 << 15 {
                return None;
            }
        }
        let mut below = top;
        let mut bit = top / 2;
        while bit > 0 {
            if self.decide(&mut bins[bin + 14]) {
                below |= bit;
            }
            bit /= 2;
        }
        Some(below + 1)
    }
}

/// Bins of a DC table (table F.4): five contexts with four bins each, then X1 ... X15 and M2 ...
/// M15.
const DC_BINS: usize = 49;
/// X1 of DC differences.
const DC_X1: usize = 20;
/// Bins of an AC table (table F.5): three per coefficient, then X2 ... and M2 ... for low and for
/// high frequencies.
const AC_BINS: usize = 245;
/// X2 of AC coefficients up to the bound `Kx`.
const AC_X2_LOW: usize = 189;
/// X2 of AC coefficients beyond the bound.
const AC_X2_HIGH: usize = 217;

/// Decodes the blocks of one scan.
pub struct Arithmetic<'a> {
    coder: Coder<'a>,
    scan: Scan,
    progressive: bool,
    /// The bounds L and U of each DC table.
    dc_bounds: [(u8, u8); 16],
    /// The bound `Kx` of each AC table.
    ac_bounds: [u8; 16],
    dc_bins: [[Bin; DC_BINS]; 16],
    ac_bins: [[Bin; AC_BINS]; 16],
    /// The DC coefficient of the previous block, by component of the scan.
    predictions: [i32; 4],
    /// The context given by the previous difference: 0, 4, 8, 12 or 16.
    contexts: [usize; 4],
    /// An invalid value was found; nothing is decoded until the next restart.
    failed: bool,
}

impl<'a> Arithmetic<'a> {
    /// Creates a decoder for the scan whose data begin at `source`.
    pub fn new(
        source: ByteReader<'a>,
        scan: &Scan,
        definitions: &Definitions,
        progressive: bool,
    ) -> Arithmetic<'a> {
        Arithmetic {
            coder: Coder::new(Segment::new(source)),
            scan: *scan,
            progressive,
            dc_bounds: definitions.dc_bounds,
            ac_bounds: definitions.ac_bounds,
            dc_bins: [[Bin::default(); DC_BINS]; 16],
            ac_bins: [[Bin::default(); AC_BINS]; 16],
            predictions: [0; 4],
            contexts: [0; 4],
            failed: false,
        }
    }

    /// Decodes a DC coefficient (F.2.4.1); `None` if the data are damaged.
    fn dc(&mut self, index: usize) -> Option<i32> {
        let table = usize::from(self.scan.dc_tables[index] & 15);
        let (coder, bins) = (&mut self.coder, &mut self.dc_bins[table]);
        let s0 = self.contexts[index];
        let difference = if coder.decide(&mut bins[s0]) {
            let negative = coder.decide(&mut bins[s0 + 1]);
            let first = if negative { s0 + 3 } else { s0 + 2 };
            let magnitude = coder.magnitude(bins, first, DC_X1, DC_X1 + 1)?;
            if negative { -magnitude } else { magnitude }
        } else {
            0
        };
        // F.1.4.4.1.2: zero, small and large differences select different contexts.
        let (low, high) = self.dc_bounds[table];
        let none = if low == 0 { 0 } else { 1 << (low - 1) };
        self.contexts[index] = match difference.abs() {
            magnitude if magnitude <= none => 0,
            magnitude => {
                let is_large = magnitude > 1 << high;
                4 + if is_large { 8 } else { 0 } + if difference < 0 { 4 } else { 0 }
            }
        };
        self.predictions[index] = self.predictions[index].wrapping_add(difference);
        Some(self.predictions[index])
    }

    /// Decodes the AC coefficients `first` to `last`, in zigzag order (F.2.4.2); `None` if the data
    /// are damaged.
    fn ac(&mut self, index: usize, block: &mut [i16; 64], first: u8, last: u8, low: u8) -> Option<()> {
        let table = usize::from(self.scan.ac_tables[index] & 15);
        let bound = usize::from(self.ac_bounds[table]);
        let (coder, bins) = (&mut self.coder, &mut self.ac_bins[table]);
        let (mut k, last) = (usize::from(first), usize::from(last));
        while k <= last {
            let is_end_of_block = coder.decide(&mut bins[3 * (k - 1)]);
            if is_end_of_block {
                break;
            }
            while !coder.decide(&mut bins[3 * (k - 1) + 1]) {
                k += 1;
                if k > last {
                    return None;
                }
            }
            let negative = coder.decide_evenly();
            let sp = 3 * (k - 1) + 2;
            let ladder = if k <= bound { AC_X2_LOW } else { AC_X2_HIGH };
            let magnitude = coder.magnitude(bins, sp, sp, ladder)?;
            let value = if negative { -magnitude } else { magnitude };
            block[place(k)] = (value << low) as i16;
            k += 1;
        }
        Some(())
    }

    /// Decodes one more bit of a DC coefficient (G.1.3.1).
    fn refine_dc(&mut self, block: &mut [i16; 64]) {
        if self.coder.decide_evenly() {
            block[0] |= 1 << self.scan.low;
        }
    }

    /// Decodes one more bit of AC coefficients (G.1.3.3); `None` if the data are damaged.
    fn refine_ac(&mut self, block: &mut [i16; 64]) -> Option<()> {
        let Scan { first, last, low, .. } = self.scan;
        let table = usize::from(self.scan.ac_tables[0] & 15);
        let (coder, bins) = (&mut self.coder, &mut self.ac_bins[table]);
        let (mut k, last) = (usize::from(first), usize::from(last));
        let bit = 1i16 << low;
        // The end of the block in earlier scans; no end-of-block decision is coded before it.
        let end_before = (1..=last).rev().find(|&k| block[place(k)] != 0).unwrap_or(0);
        // Whether the block may end here: not directly after a coefficient that stays 0.
        let mut may_end = true;
        while k <= last {
            let bin = 3 * (k - 1);
            if may_end && k > end_before && coder.decide(&mut bins[bin]) {
                return Some(());
            }
            let value = &mut block[place(k)];
            may_end = true;
            if *value != 0 {
                if coder.decide(&mut bins[bin + 2]) {
                    *value = value.wrapping_add(if *value < 0 { -bit } else { bit });
                }
            } else if coder.decide(&mut bins[bin + 1]) {
                *value = if coder.decide_evenly() { -bit } else { bit };
            } else {
                may_end = false;
            }
            k += 1;
        }
        may_end.then_some(())
    }
}

impl<'a> EntropyDecoder<'a> for Arithmetic<'a> {
    fn is_live(&mut self) -> bool {
        !self.failed
    }

    fn block(&mut self, index: usize, block: &mut [i16; 64]) {
        if self.failed {
            return;
        }
        let Scan { first, last, high, low, .. } = self.scan;
        let done = match (self.progressive, first, high) {
            (false, ..) => self.dc(index).and_then(|dc| {
                block[0] = dc as i16;
                self.ac(index, block, 1, 63, 0)
            }),
            (true, 0, 0) => self.dc(index).map(|dc| block[0] = (dc << low) as i16),
            (true, 0, _) => {
                self.refine_dc(block);
                Some(())
            }
            (true, _, 0) => self.ac(index, block, first, last, low),
            (true, ..) => self.refine_ac(block),
        };
        self.failed = done.is_none();
    }

    fn restart(&mut self) {
        self.coder.segment.restart();
        for index in 0..self.scan.count {
            if !self.progressive || (self.scan.first == 0 && self.scan.high == 0) {
                self.dc_bins[usize::from(self.scan.dc_tables[index] & 15)] = [Bin::default(); DC_BINS];
                (self.predictions[index], self.contexts[index]) = (0, 0);
            }
            if !self.progressive || self.scan.first != 0 {
                self.ac_bins[usize::from(self.scan.ac_tables[index] & 15)] = [Bin::default(); AC_BINS];
            }
        }
        self.coder = Coder::new(self.coder.segment);
        self.failed = false;
    }

    fn end(mut self) -> Segment<'a> {
        if self.failed {
            self.coder.segment.faults |= fault::BAD_CODE;
        }
        self.coder.segment
    }
}
