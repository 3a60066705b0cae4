//! JPEG: baseline, progressive and arithmetic-coded images with 8 bits per sample, pixel for pixel
//! as libjpeg-turbo decodes them with its accurate inverse transform and "fancy" upsampling.
//!
//! Decoding has four layers. [`source`] supplies bytes, markers and bits; [`frame`] parses headers;
//! [`scan`] and [`arithmetic`] decode coefficients; [`idct`], [`upsample`] and [`color`] turn these
//! into pixels. Images with a single scan, the usual case, are decoded one row of MCUs at a time
//! and only down to the bottom of the requested region; nothing outside the region is transformed.
//! Random crops of 8 to 100 % of the area, scaled to 224 x 224, are 23 % faster than with whole
//! images decoded.
//!
//! Why not a crate: see `docs/dependencies.md`.

mod arithmetic;
mod color;
mod cut;
mod frame;
mod idct;
mod scan;
mod source;
mod tables;
mod upsample;

use super::DecodeError;
use arithmetic::Arithmetic;
use cntk_reader_core::cpu::processor::Processor;
use cntk_reader_core::image::Region;
use cntk_reader_core::memory::room;
use frame::{Colors, Frame, MAX_COMPONENTS, Parser, Scan};
use scan::{Coefficients, HuffmanTables, Progressive, Room, Sequential};
use source::fault;
use upsample::{Plane, RowBuffer};

/// A parsed JPEG header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JpegHeader<'a> {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The image has colors.
    pub colored: bool,
    /// EXIF data, if any.
    pub exif: Option<&'a [u8]>,
}

/// Parses the header.
pub fn header(file: &[u8]) -> Result<JpegHeader<'_>, DecodeError> {
    let (parser, frame, _) = begin(file)?;
    Ok(JpegHeader {
        width: frame.width,
        height: frame.height,
        colored: frame.colors != Colors::Gray,
        exif: parser.exif,
    })
}

/// Parses a file up to the data of its first scan.
fn begin(file: &[u8]) -> Result<(Parser<'_>, Frame, Scan), DecodeError> {
    let mut parser = Parser::new(file)?;
    let scan = parser.next_scan()?;
    match (parser.frame, scan) {
        (Some(frame), Some(scan)) => Ok((parser, frame, scan)),
        _ => Err(DecodeError::new("the JPEG file is damaged: it has no image")),
    }
}

/// An image whose headers have been parsed up to the data of the first scan.
struct Opened<'a> {
    parser: Parser<'a>,
    frame: Frame,
    scan: Scan,
    /// Number of components that are needed.
    needed: usize,
    grayscale: bool,
}

impl Opened<'_> {
    /// Returns whether a single scan holds the whole image, so that it is decoded row by row.
    fn has_single_scan(&self) -> bool {
        self.scan.count == self.frame.count && !self.frame.progressive
    }
}

fn cut_off() -> DecodeError {
    DecodeError::new("the JPEG data are cut off, and too little of the image is left")
}

/// A JPEG decoder that reuses its memory from image to image.
#[derive(Debug, Default)]
pub struct JpegDecoder {
    tables: HuffmanTables,
    coefficients: Coefficients,
    planes: [Plane; MAX_COMPONENTS],
    rows: [RowBuffer; MAX_COMPONENTS],
    /// Faults of the image decoded last: see [`fault`].
    faults: u8,
}

impl JpegDecoder {
    /// Decodes a region, which must lie in the image, into `output`: three bytes per pixel (blue,
    /// green, red), or one if `grayscale`. CNTK 2.7 treats truncated data in `memory` differently
    /// from truncated files: see [`cut`].
    pub fn decode(
        &mut self,
        file: &[u8],
        (grayscale, memory): (bool, bool),
        region: Region,
        output: &mut [u8],
    ) -> Result<(), DecodeError> {
        self.faults = 0;
        let (parser, frame, scan) = begin(file)?;
        // If the file stores brightness and only that is wanted, skip the colors.
        let needed =
            if grayscale && matches!(frame.colors, Colors::Gray | Colors::YCbCr) { 1 } else { frame.count };
        let image = Opened { parser, frame, scan, needed, grayscale };
        let rows = if memory { self.complete_rows(&image)? } else { frame.height };
        if rows >= region.top + region.height {
            return self.decode_region(image, memory, region, output);
        }
        // The last complete row replaces the missing ones.
        let top = region.top.min(rows - 1);
        let part = Region { top, height: rows - top, ..region };
        let bytes = region.width as usize * if grayscale { 1 } else { 3 };
        let mut complete = room::zeroed(bytes * part.height as usize, room::IMAGE)?;
        self.decode_region(image, memory, part, &mut complete)?;
        for (y, row) in (region.top..).zip(output.chunks_exact_mut(bytes.max(1))) {
            let from = (y.min(rows - 1) - top) as usize * bytes;
            row.copy_from_slice(&complete[from..from + bytes]);
        }
        Ok(())
    }

    /// Clears the faults of the image decoded last.
    pub fn forget_faults(&mut self) {
        self.faults = 0;
    }

    /// Returns the warnings that libjpeg-turbo would give for the decoded part of the image decoded
    /// last.
    pub fn faults(&self) -> Option<String> {
        const TEXTS: [(u8, &str); 5] = [
            (fault::BAD_CODE, "codes that do not exist"),
            (fault::SHORT, "data that end too early"),
            (fault::EXTRANEOUS, "extraneous bytes before a marker"),
            (fault::RESTART, "restart markers out of order"),
            (fault::END_OF_FILE, "an end of the file before that of the image"),
        ];
        let found = TEXTS.iter().filter(|(bit, _)| self.faults & bit != 0).map(|(_, text)| *text);
        let found: Vec<&str> = found.collect();
        (!found.is_empty()).then(|| found.join(", "))
    }

    /// Returns the number of rows that CNTK 2.7 decodes of an image in memory, at least 1.
    fn complete_rows(&mut self, image: &Opened<'_>) -> Result<u32, DecodeError> {
        let Opened { parser, frame, scan, needed, .. } = image;
        if parser.source.is_past_end() {
            return Err(cut_off());
        }
        if !image.has_single_scan() || !cut::is_cut(&parser.source) {
            return Ok(frame.height);
        }
        if frame.arithmetic {
            return Err(cut_off());
        }
        self.tables.prepare(&parser.definitions, scan, false)?;
        let interval = parser.definitions.restart_interval;
        let rows = cut::complete_rows(parser.source, frame, scan, interval, &self.tables, *needed);
        // If no row is complete, CNTK 2.7 delivers uninitialized memory; here the missing rows are
        // filled as for truncated files.
        Ok(if rows == 0 { frame.height } else { rows })
    }

    fn decode_region(
        &mut self,
        image: Opened<'_>,
        memory: bool,
        region: Region,
        output: &mut [u8],
    ) -> Result<(), DecodeError> {
        let is_single = image.has_single_scan();
        let Opened { mut parser, frame, scan, needed, grayscale } = image;
        for (plane, component) in self.planes.iter_mut().zip(&frame.components[..needed]) {
            plane.reset(component, region)?;
        }
        let processor = Processor::detect();
        let frame = if is_single {
            self.decode_rows(processor, &parser, &frame, &scan, needed)?;
            frame
        } else {
            let frame = self.decode_scans(&mut parser, scan)?;
            if memory && parser.source.is_past_end() {
                return Err(cut_off());
            }
            self.transform_all(processor, &frame, needed);
            frame
        };
        self.write(processor, &frame, grayscale, region, output);
        Ok(())
    }

    /// Decodes an image with a single scan down to the last row that the planes need.
    fn decode_rows(
        &mut self,
        processor: Processor,
        parser: &Parser<'_>,
        frame: &Frame,
        scan: &Scan,
        needed: usize,
    ) -> Result<(), DecodeError> {
        let JpegDecoder { tables, coefficients, planes, faults: _, rows: _ } = self;
        coefficients.reset(frame, 1)?;
        // Images with one component have one row of blocks per row of MCUs, whatever the sampling
        // factors.
        let rows_of = |index: usize| if scan.count == 1 { 1 } else { u32::from(frame.components[index].v) };
        let first = (0..needed).map(|i| planes[i].top / rows_of(i)).min().unwrap_or(0);
        let end = (0..needed).map(|i| planes[i].bottom.div_ceil(rows_of(i))).max().unwrap_or(0);
        let high =
            if scan.count == 1 { frame.components[scan.components[0]].blocks_high } else { frame.mcus_high };
        let is_whole = end >= high;
        let after_row = |mcu_row: u32, coefficients: &mut Coefficients| {
            if mcu_row >= first {
                for (index, plane) in planes.iter_mut().enumerate().take(needed) {
                    let quant = &frame.components[index].quant;
                    for row in 0..rows_of(index) {
                        let at = mcu_row * rows_of(index) + row;
                        transform(processor, coefficients.row(index, row as usize), quant, plane, at);
                    }
                }
            }
            let next = mcu_row + 1;
            // Coefficients of rows above the region need no clearing: nothing reads them.
            if next >= first && next < end {
                coefficients.clear(frame);
            }
            next < end
        };
        let (source, definitions) = (parser.source, &parser.definitions);
        let interval = definitions.restart_interval;
        let mut segment = if frame.arithmetic {
            let decoder = Arithmetic::new(source, scan, definitions, false);
            scan::decode(decoder, frame, scan, interval, coefficients, Room::Row, after_row)
        } else {
            tables.prepare(definitions, scan, false)?;
            let decoder = Sequential::new(source, scan, tables);
            scan::decode(decoder, frame, scan, interval, coefficients, Room::Row, after_row)
        };
        // Data after the needed rows are not examined.
        if !is_whole {
            segment.faults &= !fault::EXTRANEOUS;
        } else if segment.marker == 0 {
            segment.find_marker();
        }
        if frame.arithmetic {
            segment.faults &= !fault::EXTRANEOUS;
        }
        self.faults |= segment.faults;
        if is_whole && segment.source.is_past_end() {
            self.faults |= fault::END_OF_FILE;
        }
        Ok(())
    }

    /// Decodes all scans of an image. Returns the frame as known at the end.
    fn decode_scans(&mut self, parser: &mut Parser<'_>, first: Scan) -> Result<Frame, DecodeError> {
        let JpegDecoder { tables, coefficients, faults, .. } = self;
        let mut next = Some(first);
        let mut is_first = true;
        while let (Some(scan), Some(frame)) = (next, parser.frame) {
            if std::mem::take(&mut is_first) {
                coefficients.reset(&frame, frame.mcus_high)?;
            }
            let definitions = &parser.definitions;
            let interval = definitions.restart_interval;
            let all = |_: u32, _: &mut Coefficients| true;
            let segment = if frame.arithmetic {
                let decoder = Arithmetic::new(parser.source, &scan, definitions, frame.progressive);
                scan::decode(decoder, &frame, &scan, interval, coefficients, Room::Image, all)
            } else {
                tables.prepare(definitions, &scan, frame.progressive)?;
                if frame.progressive {
                    let decoder = Progressive::new(parser.source, &scan, tables);
                    scan::decode(decoder, &frame, &scan, interval, coefficients, Room::Image, all)
                } else {
                    let decoder = Sequential::new(parser.source, &scan, tables);
                    scan::decode(decoder, &frame, &scan, interval, coefficients, Room::Image, all)
                }
            };
            let mut segment = segment;
            if segment.marker == 0 {
                segment.find_marker();
            }
            // Arithmetic decoders may leave the last bytes unread.
            *faults |= if frame.arithmetic { segment.faults & !fault::EXTRANEOUS } else { segment.faults };
            (parser.source, parser.marker) = (segment.source, segment.marker);
            next = parser.next_scan()?;
        }
        if parser.source.is_past_end() {
            *faults |= fault::END_OF_FILE;
        }
        parser.frame.ok_or_else(|| DecodeError::new("the JPEG file is damaged: it has no image"))
    }

    /// Transforms the blocks in the planes, once all coefficients are decoded.
    fn transform_all(&mut self, processor: Processor, frame: &Frame, needed: usize) {
        let JpegDecoder { coefficients, planes, .. } = self;
        for (index, plane) in planes.iter_mut().enumerate().take(needed) {
            for row in plane.top..plane.bottom {
                let blocks = coefficients.row(index, row as usize);
                transform(processor, blocks, &frame.components[index].quant, plane, row);
            }
        }
    }

    /// Writes the region's pixels.
    fn write(
        &mut self,
        processor: Processor,
        frame: &Frame,
        grayscale: bool,
        region: Region,
        output: &mut [u8],
    ) {
        let JpegDecoder { planes, rows, .. } = self;
        let Region { left, top, width, height } = region;
        let bytes = width as usize * if grayscale { 1 } else { 3 };
        for (y, output) in (top..top + height).zip(output.chunks_exact_mut(bytes.max(1))) {
            let mut row_of = {
                let mut buffers = rows.iter_mut();
                let (planes, components) = (&*planes, &frame.components);
                move |index: usize| match buffers.next() {
                    Some(buffer) => {
                        upsample::row(processor, &planes[index], &components[index], y, left, width, buffer)
                    }
                    None => &[],
                }
            };
            let first = row_of(0);
            match frame.colors {
                Colors::Gray | Colors::YCbCr if grayscale => output.copy_from_slice(first),
                Colors::Gray => {
                    for (pixel, &value) in output.as_chunks_mut::<3>().0.iter_mut().zip(first) {
                        *pixel = [value; 3];
                    }
                }
                Colors::YCbCr => {
                    let (blue, red) = (row_of(1), row_of(2));
                    color::from_ycc(processor, first, blue, red, output);
                }
                Colors::Rgb => {
                    let (green, blue) = (row_of(1), row_of(2));
                    let pixels = first.iter().zip(green).zip(blue).map(|((&r, &g), &b)| [b, g, r]);
                    put(pixels, output, grayscale, color::luma_of_rgb);
                }
                Colors::Cmyk | Colors::Ycck => {
                    let (second, third, black) = (row_of(1), row_of(2), row_of(3));
                    let is_coded = frame.colors == Colors::Ycck;
                    let inks = first.iter().zip(second).zip(third).zip(black);
                    let pixels = inks.map(|(((&c, &m), &y), &k)| {
                        let inks = if is_coded {
                            let [b, g, r] = color::pixel_from_ycc(c, m, y);
                            [255 - r, 255 - g, 255 - b, k]
                        } else {
                            [c, m, y, k]
                        };
                        color::pixel_from_cmyk(inks)
                    });
                    put(pixels, output, grayscale, super::gray::luma);
                }
            }
        }
    }
}

/// Transforms the part of block row `row` that lies in the plane.
fn transform(processor: Processor, blocks: &[[i16; 64]], quant: &[u16; 64], plane: &mut Plane, row: u32) {
    if !(plane.top..plane.bottom).contains(&row) {
        return;
    }
    let blocks = &blocks[plane.left as usize..plane.right as usize];
    let (output, stride) = plane.blocks(row);
    idct::transform_row(processor, blocks, quant, output, stride);
}

/// Writes a row of pixels, or of their brightness.
fn put(
    pixels: impl Iterator<Item = [u8; 3]>,
    output: &mut [u8],
    grayscale: bool,
    luma: impl Fn([u8; 3]) -> u8,
) {
    if grayscale {
        output.iter_mut().zip(pixels).for_each(|(output, pixel)| *output = luma(pixel));
    } else {
        output.as_chunks_mut::<3>().0.iter_mut().zip(pixels).for_each(|(output, pixel)| *output = pixel);
    }
}
