//! The headers of a JPEG file: everything before and between the data of its scans.

use super::super::DecodeError;
use super::source::{ByteReader, EOI, SOI};
use super::tables::Code;
use cntk_reader_core::limits::{LARGEST_JPEG_SIDE, MAX_SCANS};

/// Maximum number of components: gray, three colors, or four inks.
pub const MAX_COMPONENTS: usize = 4;

/// One component of an image: brightness, a color, or an ink.
#[derive(Debug, Clone, Copy)]
pub struct Component {
    /// The identifier by which scans refer to it.
    id: u8,
    /// Horizontal sampling factor: blocks per row of an MCU.
    pub h: u8,
    /// Vertical sampling factor: rows of blocks per MCU.
    pub v: u8,
    /// Index of its quantization table.
    quant_index: u8,
    /// The quantization table as of the component's first scan; zeros before.
    pub quant: [u16; 64],
    /// Whether `quant` has been set.
    has_quant: bool,
    /// Samples per row.
    pub width: u32,
    /// Rows of samples.
    pub height: u32,
    /// Blocks per row, without the padding of the last MCU.
    pub blocks_wide: u32,
    /// Rows of blocks, without the padding of the last MCU.
    pub blocks_high: u32,
    /// Image columns per sample.
    pub step_x: u8,
    /// Image rows per sample.
    pub step_y: u8,
}

/// The image as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Coefficients are spread over several scans.
    pub progressive: bool,
    /// Coded arithmetically instead of with Huffman codes.
    pub arithmetic: bool,
    /// Number of components.
    pub count: usize,
    /// The components.
    pub components: [Component; MAX_COMPONENTS],
    /// MCUs per row of a scan with several components.
    pub mcus_wide: u32,
    /// Rows of MCUs.
    pub mcus_high: u32,
    /// The color space of the components.
    pub colors: Colors,
}

/// The color space of the components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    /// Brightness alone.
    Gray,
    /// Brightness and two color differences.
    YCbCr,
    /// Red, green, blue.
    Rgb,
    /// Cyan, magenta, yellow, black.
    Cmyk,
    /// Inverted `YCbCr`, and black.
    Ycck,
}

/// A scan: some coefficients of some components.
#[derive(Debug, Clone, Copy)]
pub struct Scan {
    /// Number of components.
    pub count: usize,
    /// The components' indices in the frame.
    pub components: [usize; MAX_COMPONENTS],
    /// The tables for DC coefficients.
    pub dc_tables: [u8; MAX_COMPONENTS],
    /// The tables for AC coefficients.
    pub ac_tables: [u8; MAX_COMPONENTS],
    /// First coefficient.
    pub first: u8,
    /// Last coefficient.
    pub last: u8,
    /// Bit position of the preceding scan, if this one refines coefficients; otherwise 0.
    pub high: u8,
    /// Bit position of the scan's values.
    pub low: u8,
}

/// Tables and parameters for scans, as defined so far.
#[derive(Debug, Clone, Copy)]
pub struct Definitions {
    /// Quantization tables, in natural order.
    quant: [Option<[u16; 64]>; 4],
    /// Huffman codes for DC coefficients.
    pub dc: [Option<Code>; 4],
    /// Huffman codes for AC coefficients.
    pub ac: [Option<Code>; 4],
    /// Bounds of small DC differences, in arithmetic coding.
    pub dc_bounds: [(u8, u8); 16],
    /// Bounds of low frequencies, in arithmetic coding.
    pub ac_bounds: [u8; 16],
    /// MCUs between restart markers; 0 if there are no markers.
    pub restart_interval: u32,
}

/// Parses marker segments up to the data of each scan, and resumes after the data.
#[derive(Debug, Clone)]
pub struct Parser<'a> {
    /// The unread rest of the file.
    pub source: ByteReader<'a>,
    /// A marker that the entropy decoder has already read; 0 if none.
    pub marker: u8,
    /// The definitions so far.
    pub definitions: Definitions,
    /// The frame, once its header has been read.
    pub frame: Option<Frame>,
    /// Number of scans so far.
    scans: u32,
    /// A JFIF header was found.
    jfif: bool,
    /// The color transform in Adobe's header.
    adobe: Option<u8>,
    /// The EXIF data, if any.
    pub exif: Option<&'a [u8]>,
}

fn damaged(what: &str) -> DecodeError {
    DecodeError::new(format!("the JPEG file is damaged: {what}"))
}

impl<'a> Parser<'a> {
    /// Checks the signature and starts to parse a file.
    pub fn new(file: &'a [u8]) -> Result<Parser<'a>, DecodeError> {
        let mut source = ByteReader::new(file);
        if (source.byte(), source.byte()) != (0xFF, SOI) {
            return Err(damaged("it does not begin with FF D8"));
        }
        let definitions = Definitions {
            quant: [None; 4],
            dc: [None; 4],
            ac: [None; 4],
            dc_bounds: [(0, 1); 16],
            ac_bounds: [5; 16],
            restart_interval: 0,
        };
        Ok(Parser {
            source,
            marker: 0,
            definitions,
            frame: None,
            scans: 0,
            jfif: false,
            adobe: None,
            exif: None,
        })
    }

    /// Reads up to the data of the next scan; `None` at the end of the image.
    pub fn next_scan(&mut self) -> Result<Option<Scan>, DecodeError> {
        loop {
            let marker = match std::mem::take(&mut self.marker) {
                0 => self.source.marker(),
                marker => marker,
            };
            match marker {
                SOI => return Err(damaged("a second image begins within the first one")),
                EOI if self.frame.is_none() || self.scans == 0 => {
                    return Err(damaged("it ends before its image begins"));
                }
                EOI => return Ok(None),
                0xC0 | 0xC1 => self.read_frame(false, false)?,
                0xC2 => self.read_frame(true, false)?,
                0xC9 => self.read_frame(false, true)?,
                0xCA => self.read_frame(true, true)?,
                0xC3 | 0xC5..=0xC7 | 0xC8 | 0xCB | 0xCD..=0xCF => {
                    return Err(DecodeError::new(format!(
                        "the JPEG file is lossless or hierarchical (marker FF {marker:02X}), which is not supported; \
                         write it as a baseline or progressive file"
                    )));
                }
                0xC4 => self.read_codes()?,
                0xCC => self.read_bounds()?,
                0xDA => return self.read_scan().map(Some),
                0xDB => self.read_quantization()?,
                0xDD => {
                    if self.source.word() != 4 {
                        return Err(damaged("the restart interval has a wrong length"));
                    }
                    self.definitions.restart_interval = u32::from(self.source.word());
                }
                0xE0 => self.read_application(|parser, data| {
                    parser.jfif |= data.len() == 14 && data.starts_with(b"JFIF\0")
                }),
                0xEE => self.read_application(|parser, data| {
                    if let Some(&kind) = data.get(11).filter(|_| data.starts_with(b"Adobe")) {
                        parser.adobe = Some(kind);
                    }
                }),
                0xE1 => self.read_exif(),
                // Comments, application data, and the number of lines (DNL), which is known at this
                // point.
                0xE2..=0xEF | 0xFE | 0xDC => {
                    let length = self.source.word();
                    self.source.skip(usize::from(length).saturating_sub(2));
                }
                // Misplaced restart markers, and TEM, which is for temporary use in arithmetic
                // coding.
                0xD0..=0xD7 | 0x01 => {}
                _ => return Err(damaged(&format!("it has the unknown marker FF {marker:02X}"))),
            }
        }
    }

    fn read_application(&mut self, read: impl FnOnce(&mut Parser<'a>, &[u8])) {
        let length = usize::from(self.source.word()).saturating_sub(2);
        let data = self.source.peek(length.min(14));
        read(self, data);
        self.source.skip(length);
    }

    fn read_exif(&mut self) {
        let length = usize::from(self.source.word()).saturating_sub(2);
        if let Some(data) = self.source.peek(length).strip_prefix(b"Exif\0\0".as_slice()) {
            self.exif.get_or_insert(data);
        }
        self.source.skip(length);
    }

    fn read_quantization(&mut self) -> Result<(), DecodeError> {
        let mut length = i32::from(self.source.word()) - 2;
        while length > 0 {
            let head = self.source.byte();
            let (wide, index) = (head >> 4 != 0, usize::from(head & 15));
            let slot = self.definitions.quant.get_mut(index);
            let slot = slot.ok_or_else(|| damaged(&format!("quantization table {index} does not exist")))?;
            let table = slot.insert([0; 64]);
            for k in 0..64 {
                let value = if wide { self.source.word() } else { u16::from(self.source.byte()) };
                table[super::tables::place(k)] = value;
            }
            length -= if wide { 129 } else { 65 };
        }
        if length != 0 {
            return Err(damaged("a quantization table has a wrong length"));
        }
        Ok(())
    }

    fn read_codes(&mut self) -> Result<(), DecodeError> {
        let mut length = i32::from(self.source.word()) - 2;
        while length > 16 {
            let head = self.source.byte();
            let mut code = Code { counts: [0; 16], values: [0; 256] };
            let mut count = 0;
            for counts in &mut code.counts {
                *counts = self.source.byte();
                count += usize::from(*counts);
            }
            length -= 17;
            if count > 256 || count as i32 > length {
                return Err(damaged("a Huffman table is longer than it may be"));
            }
            for value in &mut code.values[..count] {
                *value = self.source.byte();
            }
            length -= count as i32;
            let codes = if head & 0x10 == 0 { &mut self.definitions.dc } else { &mut self.definitions.ac };
            let slot = codes.get_mut(usize::from(head & !0x10));
            *slot.ok_or_else(|| damaged(&format!("Huffman table {head:02X} does not exist")))? = Some(code);
        }
        if length != 0 {
            return Err(damaged("a Huffman table has a wrong length"));
        }
        Ok(())
    }

    fn read_bounds(&mut self) -> Result<(), DecodeError> {
        let mut length = i32::from(self.source.word()) - 2;
        while length > 0 {
            let (index, value) = (usize::from(self.source.byte()), self.source.byte());
            length -= 2;
            match index {
                0..16 => {
                    if value & 15 > value >> 4 {
                        return Err(damaged("the bounds of arithmetic coding are in disorder"));
                    }
                    self.definitions.dc_bounds[index] = (value & 15, value >> 4);
                }
                16..32 => self.definitions.ac_bounds[index - 16] = value,
                _ => return Err(damaged("a table index of arithmetic coding is out of range")),
            }
        }
        if length != 0 {
            return Err(damaged("a table of arithmetic coding has a wrong length"));
        }
        Ok(())
    }

    fn read_frame(&mut self, progressive: bool, arithmetic: bool) -> Result<(), DecodeError> {
        let length = usize::from(self.source.word());
        let bits = self.source.byte();
        let height = u32::from(self.source.word());
        let width = u32::from(self.source.word());
        let count = usize::from(self.source.byte());
        if self.frame.is_some() {
            return Err(damaged("it describes its image twice"));
        }
        if width == 0 || height == 0 || count == 0 {
            return Err(damaged("its image is empty"));
        }
        if length != 8 + 3 * count {
            return Err(damaged("the description of its image has a wrong length"));
        }
        if width > LARGEST_JPEG_SIDE || height > LARGEST_JPEG_SIDE {
            return Err(damaged(&format!(
                "{width} columns and {height} rows are more than {LARGEST_JPEG_SIDE}"
            )));
        }
        if bits != 8 {
            return Err(DecodeError::new(format!(
                "the JPEG file has {bits} bits per sample, but only 8 are supported; write it with 8 bits"
            )));
        }
        if !matches!(count, 1 | 3 | 4) {
            return Err(DecodeError::new(format!(
                "the JPEG file has {count} components, but only 1, 3 or 4 are supported; write it in gray or color"
            )));
        }
        let mut raw = [(0, 0, 0, 0); MAX_COMPONENTS];
        for component in &mut raw[..count] {
            let (id, sampling, quant_index) = (self.source.byte(), self.source.byte(), self.source.byte());
            *component = (id, sampling >> 4, sampling & 15, quant_index);
        }
        let raw = &raw[..count];
        if raw.iter().any(|&(_, h, v, _)| !(1..=4).contains(&h) || !(1..=4).contains(&v)) {
            return Err(damaged("a component has a sampling factor that is not 1 to 4"));
        }
        let max_h = raw.iter().map(|&(_, h, ..)| h).max().unwrap_or(1);
        let max_v = raw.iter().map(|&(_, _, v, _)| v).max().unwrap_or(1);
        if raw.iter().any(|&(_, h, v, _)| max_h % h != 0 || max_v % v != 0) {
            return Err(DecodeError::new(
                "the JPEG file has components whose sampling factors do not divide the largest one, which is not supported; \
                 write it with 4:4:4, 4:2:2 or 4:2:0",
            ));
        }
        let components = std::array::from_fn(|i| {
            let (id, h, v, quant_index) = raw.get(i).copied().unwrap_or((0, 1, 1, 0));
            let (step_x, step_y) = (max_h / h.max(1), max_v / v.max(1));
            let samples_wide = (width * u32::from(h)).div_ceil(u32::from(max_h));
            let samples_high = (height * u32::from(v)).div_ceil(u32::from(max_v));
            Component {
                id,
                h,
                v,
                quant_index,
                quant: [0; 64],
                has_quant: false,
                width: samples_wide,
                height: samples_high,
                blocks_wide: samples_wide.div_ceil(8),
                blocks_high: samples_high.div_ceil(8),
                step_x,
                step_y,
            }
        });
        let mut frame = Frame {
            width,
            height,
            progressive,
            arithmetic,
            count,
            components,
            mcus_wide: width.div_ceil(8 * u32::from(max_h)),
            mcus_high: height.div_ceil(8 * u32::from(max_v)),
            colors: Colors::Gray,
        };
        frame.colors = self.colors(&frame);
        self.frame = Some(frame);
        Ok(())
    }

    /// Returns the color space: from the JFIF or Adobe header, otherwise from the component ids
    /// (libjpeg's rules).
    fn colors(&self, frame: &Frame) -> Colors {
        let ids = frame.components.map(|component| component.id);
        match (frame.count, self.adobe) {
            (1, _) => Colors::Gray,
            (3, _) if self.jfif => Colors::YCbCr,
            (3, Some(0)) => Colors::Rgb,
            (3, None) if ids.starts_with(b"RGB") => Colors::Rgb,
            (3, _) => Colors::YCbCr,
            (_, None | Some(0)) => Colors::Cmyk,
            _ => Colors::Ycck,
        }
    }

    fn read_scan(&mut self) -> Result<Scan, DecodeError> {
        let colors = match &self.frame {
            Some(frame) => self.colors(frame),
            None => return Err(damaged("its image begins before it is described")),
        };
        let Some(frame) = &mut self.frame else {
            return Err(damaged("its image begins before it is described"));
        };
        if self.scans == 0 {
            // JFIF and Adobe headers may also follow the frame header.
            frame.colors = colors;
        }
        let length = usize::from(self.source.word());
        let count = usize::from(self.source.byte());
        if !(1..=MAX_COMPONENTS).contains(&count) || length != 6 + 2 * count {
            return Err(damaged("the description of a scan has a wrong length"));
        }
        self.scans += 1;
        if self.scans > MAX_SCANS {
            return Err(DecodeError::new(format!(
                "the JPEG file has more than {MAX_SCANS} scans, more than any program writes; save it again"
            )));
        }
        let mut scan = Scan {
            count,
            components: [0; 4],
            dc_tables: [0; 4],
            ac_tables: [0; 4],
            first: 0,
            last: 0,
            high: 0,
            low: 0,
        };
        for i in 0..count {
            let (id, tables) = (self.source.byte(), self.source.byte());
            let found = (0..frame.count)
                .find(|&index| frame.components[index].id == id && !scan.components[..i].contains(&index));
            scan.components[i] =
                found.ok_or_else(|| damaged(&format!("a scan has the unknown component {id}")))?;
            (scan.dc_tables[i], scan.ac_tables[i]) = (tables >> 4, tables & 15);
        }
        (scan.first, scan.last) = (self.source.byte(), self.source.byte());
        let bits = self.source.byte();
        (scan.high, scan.low) = (bits >> 4, bits & 15);
        let blocks = scan.components[..count].iter().map(|&i| &frame.components[i]);
        if count > 1
            && blocks.map(|component| u32::from(component.h) * u32::from(component.v)).sum::<u32>() > 10
        {
            return Err(damaged("an MCU has more than 10 blocks"));
        }
        for &index in &scan.components[..count] {
            let component = &mut frame.components[index];
            if !component.has_quant {
                let table = self.definitions.quant.get(usize::from(component.quant_index)).copied().flatten();
                component.quant = table.ok_or_else(|| damaged("a quantization table is missing"))?;
                component.has_quant = true;
            }
        }
        if frame.progressive {
            Self::check_progression(&scan)?;
        }
        Ok(scan)
    }

    fn check_progression(scan: &Scan) -> Result<(), DecodeError> {
        let band = if scan.first == 0 {
            scan.last == 0
        } else {
            scan.first <= scan.last && scan.last < 64 && scan.count == 1
        };
        let bits = (scan.high == 0 || scan.low + 1 == scan.high) && scan.low <= 13;
        if band && bits {
            return Ok(());
        }
        Err(damaged(&format!(
            "a scan has the coefficients {} to {} and the bits {} to {}, which is invalid",
            scan.first, scan.last, scan.high, scan.low
        )))
    }
}
