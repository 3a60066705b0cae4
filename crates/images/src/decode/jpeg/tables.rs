//! Huffman tables and the order of coefficients.

use super::super::DecodeError;
use super::source::Bits;

/// Zigzag order: the index in a block of each coefficient of the file. Damaged data may count up to
/// 15 past the last coefficient; those all map to the last index, as in libjpeg. The table has a
/// power-of-two length so that a mask replaces the bounds check.
pub const NATURAL_ORDER: [u8; 128] = {
    let order: [u8; 64] = [
        0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
        6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38,
        31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
    ];
    let mut padded = [63; 128];
    let mut i = 0;
    while i < 64 {
        padded[i] = order[i];
        i += 1;
    }
    padded
};

/// Returns the index in a block of the file's coefficient number `k`.
#[inline(always)]
pub fn place(k: usize) -> usize {
    usize::from(NATURAL_ORDER[k & 127] & 63)
}

/// A Huffman code as defined in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Number of codes of each length, 1 to 16, at index length - 1.
    pub counts: [u8; 16],
    /// Symbols, by ascending code length.
    pub values: [u8; 256],
}

/// Bits per lookup in [`HuffmanTable`]. Most codes, with the value bits after them, are shorter.
const LOOKUP_BITS: u32 = 9;

/// Flag: the entry includes the coefficient's value.
const WHOLE: u32 = 1 << 5;
/// Flag: end of block.
const END: u32 = 1 << 6;

/// A decoding table for a Huffman code.
#[derive(Debug, Clone)]
pub struct HuffmanTable {
    /// The code it was built from, if any.
    code: Option<Code>,
    /// Indexed by the next bits: `length << 8 | symbol`, or 0 if the code is longer than the index.
    symbols: [u16; 1 << LOOKUP_BITS],
    /// Indexed by the next bits: a coefficient of a sequential image. Bits 0 to 4: number of bits
    /// to consume (0 if the code is longer than the index); bits 8 to 11: number of zeros before
    /// the coefficient; from bit 16: the coefficient, if [`WHOLE`] is set.
    coefficients: [u32; 1 << LOOKUP_BITS],
    /// Largest code of each length; -1 if none.
    largest: [i32; 17],
    /// Offset from a code of each length to its index in the symbols.
    offsets: [i32; 17],
}

impl Default for HuffmanTable {
    fn default() -> HuffmanTable {
        HuffmanTable {
            code: None,
            symbols: [0; 512],
            coefficients: [0; 512],
            largest: [-1; 17],
            offsets: [0; 17],
        }
    }
}

impl HuffmanTable {
    /// Builds the table for a code. Does nothing if the table already holds that code: most images
    /// use the same four.
    pub fn prepare(&mut self, code: &Code, is_dc: bool) -> Result<(), DecodeError> {
        if self.code.as_ref() != Some(code) {
            self.code = None;
            self.build(code)?;
            self.code = Some(*code);
        }
        if is_dc {
            let count = code.counts.iter().map(|&count| usize::from(count)).sum::<usize>().min(256);
            if code.values[..count].iter().any(|&size| size > 15) {
                return Err(bad_code());
            }
        }
        Ok(())
    }

    fn build(&mut self, code: &Code) -> Result<(), DecodeError> {
        self.symbols.fill(0);
        self.coefficients.fill(0);
        self.largest.fill(-1);
        self.offsets.fill(0);
        let (mut next, mut index) = (0i32, 0usize);
        for length in 1..=16u32 {
            let count = i32::from(code.counts[length as usize - 1]);
            if count > 0 {
                self.offsets[length as usize] = index as i32 - next;
                // More codes than fit into their length would overrun the lookup table.
                if next + count > 1 << length || index + count as usize > 256 {
                    return Err(bad_code());
                }
                for bits in next..next + count {
                    if length <= LOOKUP_BITS {
                        self.enter(bits as u32, length, code.values[index]);
                    }
                    index += 1;
                }
                next += count;
                self.largest[length as usize] = next - 1;
            }
            next <<= 1;
        }
        Ok(())
    }

    /// Enters a short code, once for each combination of the bits after it.
    fn enter(&mut self, bits: u32, length: u32, value: u8) {
        let (run, size) = (u32::from(value >> 4), u32::from(value & 15));
        let spare = LOOKUP_BITS - length;
        for rest in 0..1u32 << spare {
            let at = (bits << spare | rest) as usize;
            self.symbols[at] = (length as u16) << 8 | u16::from(value);
            self.coefficients[at] = if size == 0 {
                // A run of 16 zeros, or the end of the block.
                length | (run << 8) | if run == 15 { WHOLE } else { END }
            } else if size <= spare {
                let value = extend(rest >> (spare - size), size);
                (length + size) | (run << 8) | WHOLE | ((value as u32) << 16)
            } else {
                length
            };
        }
    }

    /// Reads a symbol. `bits` must hold 17 bits. An unknown code yields 0 and consumes 17 bits
    /// (libjpeg).
    #[inline(always)]
    pub fn symbol(&self, bits: &mut Bits<'_>) -> u8 {
        let entry = self.symbols[bits.peek(LOOKUP_BITS) as usize];
        if entry != 0 {
            bits.skip(u32::from(entry >> 8));
            entry as u8
        } else {
            self.long_symbol(bits)
        }
    }

    fn long_symbol(&self, bits: &mut Bits<'_>) -> u8 {
        for length in LOOKUP_BITS + 1..=16 {
            if let Some(symbol) = self.meaning(bits.peek(length), length) {
                bits.skip(length);
                return symbol;
            }
        }
        bits.skip(17);
        bits.note_bad_code();
        0
    }

    /// Returns the symbol of a code of `length` bits, if there is one.
    pub fn meaning(&self, code: u32, length: u32) -> Option<u8> {
        let (code, length) = (code as i32, length as usize);
        let is_code = code <= *self.largest.get(length)?;
        let index = is_code.then(|| (code + self.offsets[length]) as u8)?;
        self.code.as_ref().map(|code| code.values[usize::from(index)])
    }

    /// Reads the difference of a DC coefficient from the preceding one.
    #[inline(always)]
    pub fn difference(&self, bits: &mut Bits<'_>) -> i32 {
        bits.refill();
        match u32::from(self.symbol(bits) & 15) {
            0 => 0,
            size => extend(bits.take(size), size),
        }
    }

    /// Reads coefficients 1 to 63 of a block of a sequential image. They must be 0. Takes `bits` by
    /// value so that it stays in registers.
    #[inline(always)]
    pub fn block<'a>(&self, mut bits: Bits<'a>, block: &mut [i16; 64]) -> Bits<'a> {
        let mut k = 1;
        while k < 64 {
            bits.refill();
            let entry = self.coefficients[bits.peek(LOOKUP_BITS) as usize];
            if entry & WHOLE != 0 {
                bits.skip(entry & 31);
                k += (entry >> 8 & 15) as usize;
                block[place(k)] = (entry >> 16) as i16;
                k += 1;
                continue;
            }
            if entry & END != 0 {
                bits.skip(entry & 31);
                break;
            }
            let symbol = self.symbol(&mut bits);
            let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
            if size == 0 {
                if run != 15 {
                    break;
                }
                k += 16;
                continue;
            }
            k += run;
            block[place(k)] = extend(bits.take(size), size) as i16;
            k += 1;
        }
        bits
    }
}

/// Decodes a value of `size` bits; values with a leading 0 are negative.
#[inline(always)]
pub fn extend(bits: u32, size: u32) -> i32 {
    let bits = bits as i32;
    if bits < 1 << (size - 1) { bits - (1 << size) + 1 } else { bits }
}

fn bad_code() -> DecodeError {
    DecodeError::new("the JPEG file is damaged: a Huffman table has more codes than their lengths allow")
}

/// Returns the standard's codes (annex K.3), which files without tables use, such as motion JPEG:
/// for DC or AC, brightness or color.
pub fn standard_code(is_dc: bool, is_color: bool) -> Code {
    let mut code = Code { counts: [0; 16], values: [0; 256] };
    let (counts, values): ([u8; 16], &[u8]) = match (is_dc, is_color) {
        (true, false) => ([0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &DC_VALUES),
        (true, true) => ([0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], &DC_VALUES),
        (false, false) => ([0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d], &AC_VALUES),
        (false, true) => ([0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77], &AC_COLOR_VALUES),
    };
    code.counts = counts;
    code.values[..values.len()].copy_from_slice(values);
    code
}

const DC_VALUES: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

#[rustfmt::skip]
const AC_VALUES: [u8; 162] = [
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71, 0x14, 0x32,
    0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16,
    0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45,
    0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69,
    0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94,
    0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6,
    0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8,
    0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
    0xf9, 0xfa,
];

#[rustfmt::skip]
const AC_COLOR_VALUES: [u8; 162] = [
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22, 0x32, 0x81,
    0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34,
    0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44,
    0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
    0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92,
    0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4,
    0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6,
    0xd7, 0xd8, 0xd9, 0xda, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
    0xf9, 0xfa,
];
