//! Truncated images in memory.
//!
//! libjpeg cannot wait for more data from memory. CNTK 2.7 then delivers the rows that were
//! complete and repeats the last of them for each missing row; it refuses truncated images with
//! several scans. Which rows are complete depends on how far libjpeg-turbo (version 2.1, 64 bits)
//! reads ahead into its bit buffer: a row is lost if the buffer cannot be filled while the row is
//! decoded, even if the row's own bits are there. [`complete_rows`] walks the codes like that
//! decoder, without computing coefficients.

use super::frame::{Frame, Scan};
use super::scan::HuffmanTables;
use super::source::{ByteReader, RST0, Segment};
use super::tables::HuffmanTable;

/// Returns whether the coded data end without any marker other than restart markers.
pub fn is_cut(source: &ByteReader<'_>) -> bool {
    let data = source.rest();
    if data.ends_with(&[0xFF, super::source::EOI]) {
        return false;
    }
    let follows = |at: usize| data.get(at + 1).copied().unwrap_or_default();
    let is_end = |code: u8| !matches!(code, 0 | 0xFF | RST0..=0xD7);
    !memchr::memchr_iter(0xFF, data).any(|at| is_end(follows(at)))
}

/// Returns the number of complete rows of a truncated image with a single Huffman-coded scan.
/// `needed` is the number of components that are decoded.
pub fn complete_rows(
    source: ByteReader<'_>,
    frame: &Frame,
    scan: &Scan,
    restart_interval: u32,
    tables: &HuffmanTables,
    needed: usize,
) -> u32 {
    let members: Vec<Member<'_>> = (0..scan.count)
        .map(|i| {
            let component = &frame.components[scan.components[i]];
            let blocks =
                if scan.count == 1 { 1 } else { usize::from(component.h) * usize::from(component.v) };
            let (dc, ac) = tables.of(scan, i);
            Member { blocks, dc, ac }
        })
        .collect();
    // A scan with a single component is not interleaved: it visits rows of blocks.
    let (wide, rows_of_blocks) = match &scan.components[..scan.count] {
        &[index] => (frame.components[index].blocks_wide, u32::from(frame.components[index].v)),
        _ => (frame.mcus_wide, 1),
    };
    let mut walker =
        Walker { segment: Segment::new(source), buffer: 0, count: 0, is_dry: false, is_fast: false };
    let mut until_restart = restart_interval;
    let mut rows = 0;
    'rows: for _ in 0..frame.mcus_high * rows_of_blocks {
        for _ in 0..wide {
            let restarts = restart_interval != 0;
            if restarts && until_restart == 0 {
                if walker.restart().is_none() {
                    break 'rows;
                }
                until_restart = restart_interval;
            }
            until_restart = until_restart.wrapping_sub(1);
            if walker.mcu(&members, !restarts).is_none() {
                break 'rows;
            }
        }
        rows += 1;
    }
    let complete = rows / rows_of_blocks;
    if complete == frame.mcus_high {
        return frame.height;
    }
    // Image rows per sample row of the component with the fewest rows.
    let group = u32::from(frame.components[0].v) * u32::from(frame.components[0].step_y);
    // Interpolation between two chroma rows needs both, so the last image rows wait for the next
    // row of MCUs.
    let waits = frame.components[..needed]
        .iter()
        .any(|component| (component.step_x, component.step_y) == (2, 2) && component.width > 2);
    (8 * group * complete).saturating_sub(if waits { group } else { 0 }).min(frame.height)
}

/// A component of the scan.
struct Member<'t> {
    /// Blocks per MCU.
    blocks: usize,
    dc: &'t HuffmanTable,
    ac: &'t HuffmanTable,
}

/// Bytes per block that must remain for libjpeg-turbo's fast decoder.
const FAST_BYTES: usize = 512;

/// Walks the codes. Its functions return `None` where bytes are missing.
#[derive(Clone, Copy)]
struct Walker<'a> {
    segment: Segment<'a>,
    /// The lowest `count` bits are the next ones.
    buffer: u64,
    count: u32,
    /// The data before the next restart are used up.
    is_dry: bool,
    /// Follows the read-ahead rules of the fast decoder, which is used far from the end.
    is_fast: bool,
}

impl Walker<'_> {
    fn restart(&mut self) -> Option<()> {
        self.count = 0;
        self.segment.restart();
        if self.segment.source.is_past_end() {
            return None;
        }
        self.is_dry &= self.segment.marker != 0;
        Some(())
    }

    fn mcu(&mut self, members: &[Member<'_>], may_be_fast: bool) -> Option<()> {
        if self.is_dry {
            return Some(());
        }
        let blocks: usize = members.iter().map(|member| member.blocks).sum();
        if may_be_fast
            && self.segment.marker == 0
            && self.segment.source.peek(FAST_BYTES * blocks).len() == FAST_BYTES * blocks
        {
            let mut fast = Walker { is_fast: true, ..*self };
            if fast.blocks(members).is_some() {
                *self = Walker { is_fast: false, ..fast };
                return Some(());
            }
        }
        self.blocks(members)
    }

    fn blocks(&mut self, members: &[Member<'_>]) -> Option<()> {
        for member in members {
            for _ in 0..member.blocks {
                let size = u32::from(self.symbol(member.dc)?);
                self.value(size)?;
                let mut k = 1;
                while k < 64 {
                    let symbol = self.symbol(member.ac)?;
                    let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
                    self.value(size)?;
                    if size == 0 && run != 15 {
                        break;
                    }
                    k += run + 1;
                }
            }
        }
        Some(())
    }

    fn symbol(&mut self, table: &HuffmanTable) -> Option<u8> {
        const LOOKED_AHEAD: u32 = 8;
        if self.is_fast {
            self.read_ahead()?;
        } else if self.count < LOOKED_AHEAD {
            self.fill(0)?;
        }
        // A code longer than the lookahead consumes its first bits before more bytes are read.
        let mut length = 1;
        if self.count >= LOOKED_AHEAD {
            for length in 1..=LOOKED_AHEAD {
                if let Some(symbol) = table.meaning(self.peek(length), length) {
                    self.count -= length;
                    return Some(symbol);
                }
            }
            length = LOOKED_AHEAD + 1;
        }
        let mut code = self.take(length)?;
        while length <= 16 {
            if let Some(symbol) = table.meaning(code, length) {
                return Some(symbol);
            }
            code = code << 1 | self.take(1)?;
            length += 1;
        }
        Some(0)
    }

    /// Skips the bits of a value.
    fn value(&mut self, size: u32) -> Option<()> {
        if size > 0 {
            if self.is_fast {
                self.read_ahead()?;
            }
            self.take(size)?;
        }
        Some(())
    }

    fn take(&mut self, count: u32) -> Option<u32> {
        if self.count < count {
            self.fill(count)?;
        }
        let bits = self.peek(count);
        self.count -= count;
        Some(bits)
    }

    fn peek(&self, count: u32) -> u32 {
        (self.buffer >> (self.count - count)) as u32 & ((1 << count) - 1)
    }

    /// Reads bytes until the buffer is full or a marker is found. If fewer than `wanted` bits are
    /// left after a marker, appends zeros.
    fn fill(&mut self, wanted: u32) -> Option<()> {
        const FULL: u32 = 57;
        while self.count < FULL && self.segment.marker == 0 {
            match self.segment.source.coded_byte() {
                _ if self.segment.source.is_past_end() => return None,
                Ok(byte) => self.push(byte),
                Err(marker) => self.segment.marker = marker,
            }
        }
        if self.count < wanted {
            self.is_dry = true;
            self.buffer <<= FULL - self.count;
            self.count = FULL;
        }
        Some(())
    }

    /// Reads six bytes if at most 16 bits are left; `None` at a marker.
    fn read_ahead(&mut self) -> Option<()> {
        if self.count <= 16 {
            for _ in 0..6 {
                let byte = self.segment.source.coded_byte().ok()?;
                self.push(byte);
            }
        }
        Some(())
    }

    fn push(&mut self, byte: u8) {
        self.buffer = self.buffer << 8 | u64::from(byte);
        self.count += 8;
    }
}
