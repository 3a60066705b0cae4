//! Decodes the data of scans to coefficients.

use super::super::DecodeError;
use super::frame::{Definitions, Frame, MAX_COMPONENTS, Scan};
use super::source::{Bits, ByteReader, Segment};
use super::tables::{HuffmanTable, extend, place, standard_code};
use cntk_reader_core::memory::room;

/// An entropy decoder that yields one block after the other.
pub trait EntropyDecoder<'a> {
    /// Returns false if the data have ended or are damaged, so that the blocks up to the next
    /// restart stay unchanged. Called before each MCU.
    fn is_live(&mut self) -> bool;

    /// Decodes a block of the scan's component `index`.
    fn block(&mut self, index: usize, block: &mut [i16; 64]);

    /// Continues after the next restart marker.
    fn restart(&mut self);

    /// Returns the position where the data end.
    fn end(self) -> Segment<'a>;
}

/// The coefficients of an image or of one row of MCUs, stored by component in rows of blocks.
#[derive(Debug, Default)]
pub struct Coefficients {
    planes: [Vec<[i16; 64]>; MAX_COMPONENTS],
    /// Blocks per row, including the padding of the last MCU.
    strides: [usize; MAX_COMPONENTS],
}

impl Coefficients {
    /// Allocates `rows` rows of MCUs and sets all coefficients to 0.
    pub fn reset(&mut self, frame: &Frame, rows: u32) -> cntk_reader_core::Result<()> {
        for (i, component) in frame.components[..frame.count].iter().enumerate() {
            self.strides[i] = frame.mcus_wide as usize * usize::from(component.h);
            let blocks = self.strides[i] * rows as usize * usize::from(component.v);
            self.planes[i].clear();
            room::resize(&mut self.planes[i], blocks, [0; 64], room::IMAGE)?;
        }
        Ok(())
    }

    /// Sets all coefficients to 0.
    pub fn clear(&mut self, frame: &Frame) {
        self.planes[..frame.count].iter_mut().for_each(|plane| plane.fill([0; 64]));
    }

    /// Returns a row of a component's blocks.
    pub fn row(&self, component: usize, row: usize) -> &[[i16; 64]] {
        let stride = self.strides[component];
        &self.planes[component][row * stride..][..stride]
    }
}

/// The rows of MCUs for which there are coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// All of them.
    Image,
    /// A single row, overwritten by each row of MCUs.
    Row,
}

/// Decodes the MCUs of a scan. Calls `after_row` with the number of each finished row of MCUs;
/// returning false ends the scan. Returns the position where the data end.
pub fn decode<'a, D: EntropyDecoder<'a>>(
    mut decoder: D,
    frame: &Frame,
    scan: &Scan,
    restart_interval: u32,
    coefficients: &mut Coefficients,
    room: Room,
    mut after_row: impl FnMut(u32, &mut Coefficients) -> bool,
) -> Segment<'a> {
    let members = &scan.components[..scan.count];
    let alone = scan.count == 1;
    let (wide, high) = match members {
        // A scan with a single component has no padding blocks.
        &[index] => (frame.components[index].blocks_wide, frame.components[index].blocks_high),
        _ => (frame.mcus_wide, frame.mcus_high),
    };
    let mut until_restart = restart_interval;
    for mcu_row in 0..high {
        for mcu_column in 0..wide as usize {
            if restart_interval != 0 {
                if until_restart == 0 {
                    decoder.restart();
                    until_restart = restart_interval;
                }
                until_restart -= 1;
            }
            if !decoder.is_live() {
                continue;
            }
            for (i, &index) in members.iter().enumerate() {
                let component = &frame.components[index];
                let (h, v) =
                    if alone { (1, 1) } else { (usize::from(component.h), usize::from(component.v)) };
                let top = if room == Room::Row { 0 } else { mcu_row as usize * v };
                let stride = coefficients.strides[index];
                for y in 0..v {
                    let start = (top + y) * stride + mcu_column * h;
                    // These numbers depend on the frame only, so they are in bounds even if the
                    // scan is damaged.
                    if let Some(blocks) = coefficients.planes[index].get_mut(start..start + h) {
                        for block in blocks {
                            decoder.block(i, block);
                        }
                    }
                }
            }
        }
        if !after_row(mcu_row, coefficients) {
            break;
        }
    }
    decoder.end()
}

/// Huffman decoding tables, rebuilt only if the codes differ from the preceding file's.
#[derive(Debug, Default)]
pub struct HuffmanTables {
    dc: [Box<HuffmanTable>; 4],
    ac: [Box<HuffmanTable>; 4],
}

impl HuffmanTables {
    /// Prepares the tables of a scan. Sequential files may omit tables and then use the standard
    /// ones.
    pub fn prepare(
        &mut self,
        definitions: &Definitions,
        scan: &Scan,
        progressive: bool,
    ) -> Result<(), DecodeError> {
        for i in 0..scan.count {
            if !progressive || (scan.first == 0 && scan.high == 0) {
                let index = usize::from(scan.dc_tables[i]);
                Self::prepare_one(&mut self.dc, &definitions.dc, index, true, progressive)?;
            }
            if !progressive || scan.first != 0 {
                let index = usize::from(scan.ac_tables[i]);
                Self::prepare_one(&mut self.ac, &definitions.ac, index, false, progressive)?;
            }
        }
        Ok(())
    }

    /// Returns the DC and AC tables of the scan's component `index`. They must be prepared for the
    /// scan.
    pub fn of(&self, scan: &Scan, index: usize) -> (&HuffmanTable, &HuffmanTable) {
        let (dc, ac) = (scan.dc_tables[index], scan.ac_tables[index]);
        (&self.dc[usize::from(dc & 3)], &self.ac[usize::from(ac & 3)])
    }

    fn prepare_one(
        tables: &mut [Box<HuffmanTable>; 4],
        codes: &[Option<super::tables::Code>; 4],
        index: usize,
        is_dc: bool,
        progressive: bool,
    ) -> Result<(), DecodeError> {
        match (tables.get_mut(index), codes.get(index)) {
            (Some(table), Some(Some(code))) => table.prepare(code, is_dc),
            (Some(table), _) if index < 2 && !progressive => {
                table.prepare(&standard_code(is_dc, index == 1), is_dc)
            }
            _ => Err(DecodeError::new(format!(
                "the JPEG file is damaged: the {} Huffman table {index} is missing",
                if is_dc { "DC" } else { "AC" }
            ))),
        }
    }
}

/// Decodes the blocks of a sequential scan with Huffman codes.
pub struct Sequential<'a, 't> {
    bits: Bits<'a>,
    dc: [&'t HuffmanTable; MAX_COMPONENTS],
    ac: [&'t HuffmanTable; MAX_COMPONENTS],
    predictions: [i32; MAX_COMPONENTS],
    missing: bool,
}

impl<'a, 't> Sequential<'a, 't> {
    /// Creates a decoder for data that begin at `source`. The tables must be prepared for the scan.
    pub fn new(source: ByteReader<'a>, scan: &Scan, tables: &'t HuffmanTables) -> Sequential<'a, 't> {
        Sequential {
            bits: Bits::new(source),
            dc: scan.dc_tables.map(|index| &*tables.dc[usize::from(index & 3)]),
            ac: scan.ac_tables.map(|index| &*tables.ac[usize::from(index & 3)]),
            predictions: [0; MAX_COMPONENTS],
            missing: false,
        }
    }
}

impl<'a> EntropyDecoder<'a> for Sequential<'a, '_> {
    #[inline(always)]
    fn is_live(&mut self) -> bool {
        self.missing = self.missing || self.bits.has_overrun();
        !self.missing
    }

    #[inline(always)]
    fn block(&mut self, index: usize, block: &mut [i16; 64]) {
        let mut bits = self.bits;
        let prediction = &mut self.predictions[index];
        *prediction = prediction.wrapping_add(self.dc[index].difference(&mut bits));
        block[0] = *prediction as i16;
        self.bits = self.ac[index].block(bits, block);
    }

    fn restart(&mut self) {
        self.is_live();
        self.bits.restart();
        self.predictions = [0; MAX_COMPONENTS];
        self.missing &= self.bits.segment.marker != 0;
    }

    fn end(mut self) -> Segment<'a> {
        self.bits.note_end(self.missing);
        self.bits.segment
    }
}

/// Decodes the blocks of a progressive scan with Huffman codes.
pub struct Progressive<'a, 't> {
    bits: Bits<'a>,
    scan: Scan,
    dc: [&'t HuffmanTable; MAX_COMPONENTS],
    ac: &'t HuffmanTable,
    predictions: [i32; MAX_COMPONENTS],
    /// Remaining blocks of an end-of-band run.
    run: u32,
    missing: bool,
}

impl<'a, 't> Progressive<'a, 't> {
    /// Creates a decoder for data that begin at `source`. The tables must be prepared for the scan.
    pub fn new(source: ByteReader<'a>, scan: &Scan, tables: &'t HuffmanTables) -> Progressive<'a, 't> {
        Progressive {
            bits: Bits::new(source),
            scan: *scan,
            dc: scan.dc_tables.map(|index| &*tables.dc[usize::from(index & 3)]),
            ac: &tables.ac[usize::from(scan.ac_tables[0] & 3)],
            predictions: [0; MAX_COMPONENTS],
            run: 0,
            missing: false,
        }
    }

    /// Reads the length of an end-of-band run, including the current block.
    fn read_run(bits: &mut Bits<'a>, size: u32) -> u32 {
        match size {
            0 => 1,
            size => (1 << size) + bits.take(size),
        }
    }

    fn first_ac(&mut self, block: &mut [i16; 64]) {
        if self.run > 0 {
            self.run -= 1;
            return;
        }
        let mut bits = self.bits;
        let (mut k, last) = (usize::from(self.scan.first), usize::from(self.scan.last));
        while k <= last {
            bits.refill();
            let symbol = self.ac.symbol(&mut bits);
            let (zeros, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
            if size != 0 {
                k += zeros;
                block[place(k)] = (extend(bits.take(size), size) << self.scan.low) as i16;
                k += 1;
            } else if zeros == 15 {
                k += 16;
            } else {
                self.run = Self::read_run(&mut bits, zeros as u32) - 1;
                break;
            }
        }
        self.bits = bits;
    }

    fn refine_ac(&mut self, block: &mut [i16; 64]) {
        let mut bits = self.bits;
        let one = 1i16 << self.scan.low;
        let (mut k, last) = (usize::from(self.scan.first), usize::from(self.scan.last));
        // Reads one more bit of a nonzero coefficient.
        let refine = |bits: &mut Bits<'a>, value: &mut i16| {
            if bits.bit() && *value & one == 0 {
                *value = value.wrapping_add(if *value >= 0 { one } else { -one });
            }
        };
        if self.run == 0 {
            while k <= last {
                bits.refill();
                let symbol = self.ac.symbol(&mut bits);
                let (mut zeros, size) = (i32::from(symbol >> 4), symbol & 15);
                let mut new = 0;
                if size != 0 {
                    new = if bits.take(1) != 0 { one } else { -one };
                } else if zeros != 15 {
                    self.run = Self::read_run(&mut bits, zeros as u32);
                    break;
                }
                while k <= last {
                    let value = &mut block[place(k)];
                    if *value != 0 {
                        refine(&mut bits, value);
                    } else {
                        zeros -= 1;
                        if zeros < 0 {
                            break;
                        }
                    }
                    k += 1;
                }
                if new != 0 {
                    block[place(k)] = new;
                }
                k += 1;
            }
        }
        if self.run > 0 {
            while k <= last {
                let value = &mut block[place(k)];
                if *value != 0 {
                    refine(&mut bits, value);
                }
                k += 1;
            }
            self.run -= 1;
        }
        self.bits = bits;
    }
}

impl<'a> EntropyDecoder<'a> for Progressive<'a, '_> {
    #[inline(always)]
    fn is_live(&mut self) -> bool {
        self.missing = self.missing || self.bits.has_overrun();
        !self.missing
    }

    #[inline(always)]
    fn block(&mut self, index: usize, block: &mut [i16; 64]) {
        match (self.scan.first, self.scan.high) {
            (0, 0) => {
                let prediction = &mut self.predictions[index];
                *prediction = prediction.wrapping_add(self.dc[index].difference(&mut self.bits));
                block[0] = prediction.wrapping_shl(u32::from(self.scan.low)) as i16;
            }
            (0, _) => {
                if self.bits.bit() {
                    block[0] |= 1 << self.scan.low;
                }
            }
            (_, 0) => self.first_ac(block),
            _ => self.refine_ac(block),
        }
    }

    fn restart(&mut self) {
        self.is_live();
        self.bits.restart();
        self.predictions = [0; MAX_COMPONENTS];
        self.run = 0;
        self.missing &= self.bits.segment.marker != 0;
    }

    fn end(mut self) -> Segment<'a> {
        self.bits.note_end(self.missing);
        self.bits.segment
    }
}
