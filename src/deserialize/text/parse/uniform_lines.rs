//! Lines of one short entry for each of some sparse streams, all alike: `17 |word 12345:1 |tag 12:1`.
//!
//! Read sample by sample, such a line is a chain of small steps, each of which has to wait for the one before: the id
//! ends, the name, the row, the value. But lines of a file look alike, so that what the last one looked like says where in a
//! block of 64 bytes everything has to be. Bit masks of the block tell whether that is so, for all its whole lines at once;
//! then rows and values are converted all at once as well ([`super::simd`]). This more than doubles the speed of such
//! lines with AVX-512, and makes it half as large again with AVX2.

use super::dense::BLOCK;
use super::fast::Stream;
use super::number::load8;
use super::output::{Column, Output};
use super::rules::ends_name;
#[cfg(target_arch = "x86_64")]
use super::simd::entries512::Sorted;
use super::simd::{Found, Pairs, long_runs};
use crate::compact::Value;

/// The most entries of a line.
pub const LANES: usize = 8;

/// What lines look like. Arrays have the entries of several lines, as many whole lines as fit.
#[derive(Debug, Clone, Default)]
pub struct Template {
    /// Entries of a line; 0 if it is not known what lines look like.
    pub entries: usize,
    /// The stream of each entry.
    pub streams: [usize; LANES],
    /// Names, and which bytes of them count, first byte lowest.
    pub names: [u64; LANES],
    /// See `names`.
    pub masks: [u64; LANES],
    /// Bytes from the `|` before a name to the row behind it.
    pub offsets: [u8; LANES],
    /// Rows are below these.
    pub dims: [u32; LANES],
    /// What AVX-512 needs besides.
    #[cfg(target_arch = "x86_64")]
    pub sorted: Sorted,
    /// What trying may still cost: lines that fit add to it, others take from it.
    credit: i32,
}

/// Credit of a new segment, and the most there can be.
const CREDIT: i32 = 64;

/// What a line costs that does not fit.
const FINE: i32 = 2;

/// Marks of whole lines in a block, one bit for each byte.
#[derive(Debug, Clone, Copy)]
pub struct Lines {
    /// The `|` before names, as many as entries.
    pub pipes: u64,
    /// The entries.
    pub found: Found,
    /// Where lines end: some of the entries' ends.
    pub breaks: u64,
}

impl Template {
    /// Nothing is known.
    pub fn reset(&mut self) {
        self.entries = 0;
        self.credit = CREDIT;
    }

    /// Looks at a line that did not fit, and was read otherwise.
    #[inline(always)]
    pub fn see(&mut self, line: &[u8], streams: &[Stream]) {
        if line.len() <= BLOCK {
            if self.credit > 0 {
                self.learn(line, streams);
            } else {
                self.entries = 0;
            }
        }
    }

    #[cold]
    fn learn(&mut self, line: &[u8], streams: &[Stream]) {
        self.credit -= FINE;
        let mut new = Template { credit: self.credit, ..Template::default() };
        for sample in line.split(|&byte| byte == b'|').skip(1) {
            let length = sample.iter().position(|&byte| ends_name(byte)).unwrap_or(0);
            let Some(stream) = streams.iter().position(|stream| stream.alias == sample[..length]) else {
                return;
            };
            let rule = &streams[stream];
            let colons = sample.iter().filter(|&&byte| byte == b':').count();
            let is_new = !new.streams[..new.entries].contains(&stream);
            let is_name = rule.mask != 0 && length <= 8;
            let fits = is_name && new.entries < LANES && rule.dim > 0;
            if !(rule.sparse && is_new && colons == 1 && fits) {
                return;
            }
            new.streams[new.entries] = stream;
            new.names[new.entries] = rule.name;
            new.masks[new.entries] = rule.mask;
            new.offsets[new.entries] = length as u8 + 2;
            new.dims[new.entries] = rule.dim as u32;
            new.entries += 1;
        }
        let count = new.entries;
        if count == 0 {
            return;
        }
        for lane in count..LANES {
            new.streams[lane] = new.streams[lane - count];
            new.names[lane] = new.names[lane - count];
            new.masks[lane] = new.masks[lane - count];
            new.offsets[lane] = new.offsets[lane - count];
            new.dims[lane] = new.dims[lane - count];
        }
        #[cfg(target_arch = "x86_64")]
        {
            new.sorted = Sorted::new(count, &new.dims);
        }
        *self = new;
    }
}

/// Reads as many lines from `p` on as fit the template: what follows them, and their number.
///
/// # Safety
/// `p` must be the start of a line, and a line break must be the last byte before `end`; [`super::fast::PADDING`] bytes behind
/// and [`super::fast::FRONT`] bytes before must be readable. The columns must have room for as many entries and starts as the
/// text can hold, and [`super::simd::SLACK`] more. The template must have been made for these columns. The processor must
/// have what `I` names.
#[inline(always)]
pub unsafe fn lines<T: Value, I: Pairs>(
    mut p: *const u8,
    end: *const u8,
    output: &mut Output<T>,
) -> (*const u8, u32) {
    let Output { template, columns, .. } = output;
    let mut count = 0;
    if template.entries == 0 {
        return (p, 0);
    }
    // SAFETY: `p` moves to the byte behind a line break, until the last one before `end`, so that blocks begin before it.
    unsafe {
        while p < end {
            let Some((lines, size)) = find::<I>(p, end.offset_from_unsigned(p), template.entries) else {
                break;
            };
            if !I::deliver(p, lines, template, columns) {
                break;
            }
            count += lines.breaks.count_ones();
            p = p.add(size as usize);
        }
    }
    template.credit = (template.credit + count as i32).min(CREDIT);
    (p, count)
}

/// The whole lines in the block at `p`, of which `length` bytes count, and the bytes they take. `None` if there are none,
/// or other things in them than an id, names, and one entry behind each. That names are the right ones, and that the
/// entries of a line are as many as they should be, is still to be seen.
///
/// # Safety
/// `p` must be valid for reading 64 bytes, and the processor must have what `I` names.
#[inline(always)]
unsafe fn find<I: Pairs>(p: *const u8, length: usize, entries: usize) -> Option<(Lines, u32)> {
    // SAFETY: promised by the caller.
    let (block, pipes, feeds, returns) =
        unsafe { (I::classify(p), I::equal(p, b'|'), I::equal(p, b'\n'), I::equal(p, b'\r')) };
    let mut feeds = if length < 64 { feeds & ((1 << length) - 1) } else { feeds };
    while feeds.count_ones() as usize * entries > I::AT_ONCE as usize {
        feeds &= u64::MAX >> 1 >> feeds.leading_zeros();
    }
    if feeds == 0 {
        return None;
    }
    let size = 64 - feeds.leading_zeros();
    let known = u64::MAX >> (64 - size);
    let space = block.space & known;
    let colons = block.colon & known;
    let digit = block.digit & known;
    let line_starts = (feeds << 1 | 1) & known;

    // Digits of names are left out: they follow neither white space, a colon nor a line's start.
    let runs = digit & !(digit << 1);
    let named = runs & !(space << 1 | colons << 1 | line_starts);
    let digit = digit & digit.wrapping_add(named);
    let runs = runs & !named;
    // Adding its first bit to a run of ones carries through the run and comes out where it ends.
    let ids = runs & line_starts;
    let starts = runs & (space << 1);
    let values = runs & (colons << 1);
    let id_ends = digit.wrapping_add(ids) & !digit;
    let row_ends = digit.wrapping_add(starts) & !digit;
    let ends = digit.wrapping_add(values) & !digit;

    // A line ends with a line feed or with a carriage return and one.
    let returns = returns & (feeds >> 1);
    let breaks = (feeds & !(returns << 1)) | returns;
    let gaps = (id_ends | ends) & !breaks;
    let wrong = (row_ends ^ colons)
        | (values ^ (colons << 1))
        | (breaks & !ends)
        | (gaps & !space)
        | ((pipes & known) ^ (gaps << 1 | (line_starts & !digit)))
        | long_runs(digit & digit.wrapping_add(ids));
    (wrong == 0)
        .then_some((Lines { pipes: pipes & known, found: Found { starts, colons, ends }, breaks }, size))
}

/// [`Pairs::deliver`] on any processor.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn deliver<T: Value, I: Pairs>(
    p: *const u8,
    lines: Lines,
    template: &Template,
    columns: &mut [Column<T>],
) -> bool {
    let Lines { mut pipes, found: Found { mut starts, mut colons, mut ends }, breaks } = lines;
    let count = breaks.count_ones() as usize;
    if colons.count_ones() as usize != count * template.entries {
        return false;
    }
    // SAFETY: the masks have as many bits as entries, all in the block, and 8 bytes from there on are readable; there is room
    // for the entries, which count only when all are written.
    unsafe {
        let digits = I::digits(p);
        for line in 0..count {
            for lane in 0..template.entries {
                let (pipe, start) = (pipes.trailing_zeros(), starts.trailing_zeros());
                let (colon, end) = (colons.trailing_zeros(), ends.trailing_zeros());
                pipes &= pipes.wrapping_sub(1);
                starts &= starts.wrapping_sub(1);
                colons &= colons.wrapping_sub(1);
                ends &= ends.wrapping_sub(1);
                let name = load8(p.add(pipe as usize + 1));
                let row = I::number(p, &digits, start, colon);
                let value = I::number(p, &digits, colon + 1, end);
                let fits = (name ^ template.names[lane]) & template.masks[lane] == 0
                    && start == pipe + u32::from(template.offsets[lane])
                    && (breaks >> end & 1 == 1) == (lane + 1 == template.entries)
                    && (row as u32) < template.dims[lane];
                if !fits {
                    return false;
                }
                let column = columns.get_unchecked_mut(template.streams[lane]);
                let entry = column.values.len() + line;
                column.rows.as_mut_ptr().add(entry).write(row);
                column.values.as_mut_ptr().add(entry).write(T::from_i32(value));
                column.starts.as_mut_ptr().add(column.starts.len() + line).write(entry as u32 + 1);
            }
        }
        for &stream in &template.streams[..template.entries] {
            columns.get_unchecked_mut(stream).count_single(count);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::dense::Portable;
    use super::super::fast::{FRONT, Fast, PADDING};
    use super::super::simd::SLACK;
    #[cfg(target_arch = "x86_64")]
    use super::super::simd::{
        avx2::{Avx2, Sse2},
        avx512::Avx512,
    };
    use super::*;
    use crate::deserialize::text::tests::rules;
    #[cfg(target_arch = "x86_64")]
    use crate::processor::Processor;

    /// Lines of `text` that are read with a template like the first one.
    fn taken<I: Pairs>(text: &str) -> u32 {
        let rules = rules("S0:200s w:20000s", 0);
        let mut output = Output::<f32>::default();
        output.reset(&rules);
        let first = text.split_inclusive('\n').next().unwrap_or_default();
        output.template.see(first.as_bytes(), &Fast::new(&rules).streams);
        for column in &mut output.columns {
            column.values.reserve(text.len() + SLACK);
            column.rows.reserve(text.len() + SLACK);
            column.starts.reserve(text.len() + SLACK);
        }
        let mut padded = vec![b'7'; FRONT];
        padded.extend(text.as_bytes());
        padded.extend([b'7'; PADDING]);
        let range = padded[FRONT..FRONT + text.len()].as_ptr_range();
        // SAFETY: the text has its padding, ends with a line break, and there is room for more than it can hold.
        let (p, lines) = unsafe { lines::<f32, I>(range.start, range.end, &mut output) };
        assert!(p == range.end || lines < text.lines().count() as u32);
        assert!(output.columns.iter().all(|column| column.samples == 0 || column.samples == lines as usize));
        lines
    }

    fn check(text: &str, expected: u32) {
        assert_eq!(taken::<Portable>(text), expected, "{text}");
        #[cfg(target_arch = "x86_64")]
        {
            assert_eq!(taken::<Sse2>(text), expected, "{text}");
            assert!(!Processor::Avx2.is_here() || taken::<Avx2>(text) == expected, "{text}");
            assert!(!Processor::Avx512.is_here() || taken::<Avx512>(text) == expected, "{text}");
        }
    }

    /// Otherwise the tests of whole texts would compare other ways with each other.
    #[test]
    fn lines_that_look_alike_are_taken() {
        for line in [
            "17 |w 12345:1 |S0 12:1\n",
            "17\t|S0 199:1\t|w 1:255\r\n",
            "|w 1:1\n",
            "123456789012 |w 19999:12345678\n",
            "0 |S0 00000012:1 |w 0:0\n",
        ] {
            check(&line.repeat(30), 30);
        }
        let mixed = "1 |w 1:1 |S0 12:1\n12345 |w 12345:123 |S0 7:1\n|w 00:00 |S0 1:2\n";
        check(&mixed.repeat(9), 27);
    }

    #[test]
    fn other_lines_are_left_alone() {
        for line in [
            "1 |w 1.5:1\n",
            "1 |w 1:1.5\n",
            "1 |w 1:-1\n",
            "1 |w 1:1 2:1\n",
            "1 |w 20000:1\n",
            "1 |w 123456789:1\n",
            "1 |w 1:\n",
            "1 |w 1\n",
            "1 |v 1:1\n",
            "1 |wv 1:1\n",
            "1 |w  1:1\n",
            "1 |w 1:1 \n",
            "1 |w 1:1 |w 1:1\n",
            "1 |w 1:1 |S0 1:1\n",
            "1 || 1:1\n",
            "1 |# 1:1\n",
            "1  |w 1:1\n",
            "1\n",
            "\n",
            "1 |w 1:1\r\r\n",
        ] {
            check(&format!("1 |w 1:1\n{line}"), 0);
        }
    }
}
