//! Images in memory whose data are cut off.
//!
//! libjpeg cannot wait for more data from memory. CNTK 2.7 then delivers the rows that were complete, and the last of them again
//! for each one that is missing; an image in several scans is refused. Which rows are complete depends on how far ahead of
//! need bytes are read into libjpeg-turbo's buffer of bits (version 2.1, on 64 bits): a row is lost if the buffer cannot be
//! filled while it is decoded, though its own bits may be there. [`complete_rows`] goes through the codes as that decoder
//! does, without making coefficients of them.

use super::frame::{Frame, Scan};
use super::scan::HuffmanTables;
use super::source::{RST0, Segment, Source};
use super::tables::Table;

/// Whether coded data end without any marker but those that restart the decoder.
pub fn is_cut(source: &Source<'_>) -> bool {
    let data = source.rest();
    if data.ends_with(&[0xFF, super::source::EOI]) {
        return false;
    }
    let follows = |at: usize| data.get(at + 1).copied().unwrap_or_default();
    let is_end = |code: u8| !matches!(code, 0 | 0xFF | RST0..=0xD7);
    !memchr::memchr_iter(0xFF, data).any(|at| is_end(follows(at)))
}

/// The number of complete rows of an image with a single scan of Huffman codes, whose data are cut off. Of its components
/// `needed` are shown.
pub fn complete_rows(
    source: Source<'_>,
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
    // A scan with a single component goes through its rows of blocks.
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
    // Rows of the image in a row of samples of the component with the fewest rows.
    let group = u32::from(frame.components[0].v) * u32::from(frame.components[0].step_y);
    // Colors between two rows of samples depend on both, so that the last ones wait for the next row of MCUs.
    let waits = frame.components[..needed]
        .iter()
        .any(|component| (component.step_x, component.step_y) == (2, 2) && component.width > 2);
    (8 * group * complete).saturating_sub(if waits { group } else { 0 }).min(frame.height)
}

/// A component of the scan.
struct Member<'t> {
    /// Blocks in an MCU.
    blocks: usize,
    dc: &'t Table,
    ac: &'t Table,
}

/// Bytes for each block of an MCU that must be left for the decoder that checks less.
const FAST_BYTES: usize = 512;

/// Goes through codes. Its functions give `None` where bytes are missing.
#[derive(Clone, Copy)]
struct Walker<'a> {
    segment: Segment<'a>,
    /// The lowest `count` bits are next.
    buffer: u64,
    count: u32,
    /// The data up to the next restart have ended.
    is_dry: bool,
    /// Far from the end, bits are read ahead by other rules.
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

    fn symbol(&mut self, table: &Table) -> Option<u8> {
        const LOOKED_AHEAD: u32 = 8;
        if self.is_fast {
            self.read_ahead()?;
        } else if self.count < LOOKED_AHEAD {
            self.fill(0)?;
        }
        // Of a longer code the first bits are passed over before more bytes are read.
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

    /// Passes over the bits of a value.
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

    /// Reads bytes as long as there is room, or up to a marker. `wanted` bits are needed: after a marker they are zeros.
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

    /// Reads six bytes if few bits are left; `None` at a marker.
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
