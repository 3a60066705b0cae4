//! Uniform lines: runs of lines with one short entry for each of some sparse streams, such as
//! `17 |word 12345:1 |tag 12:1`. They may have comments, which are masked out:
//! `17 |word 12345:1 |# cat |tag 12:1 |# N`. Ids may be text, which is masked out as well:
//! `speaker-17 |word 12345:1`.
//!
//! Read sample by sample, such a line is a chain of small dependent steps: the ends of the id, the
//! name, the index and the value. But the lines of a file are similar, so an earlier line says
//! where everything has to be in a block of 64 bytes. Masks of the block show whether it is there,
//! for all whole lines of the block at once; then indices and values are converted together as well
//! ([`Simd::entries`]). This makes such lines more than 2 times as fast with AVX-512 and 1.5 times
//! with AVX2.

use super::names::{Stream, word};
use super::output::{Column, Output};
use super::rules::ends_name;
use super::simd::{BLOCK, Entries, LANES, Pattern, Simd, Window, long_runs, run_ends};
use cntk_reader_core::memory::compact::Value;

/// The form of lines. Arrays have the entries of several lines, as many whole lines as fit:
/// `streams` and `pattern` in text order, `order` and `limits` with all entries of the first
/// stream, then all of the second one, and so on.
#[derive(Debug, Clone, Default)]
pub struct Template {
    /// Number of entries in a line; 0 if the form is not known.
    entries: usize,
    /// The stream of each entry.
    streams: [usize; LANES],
    /// The text after each `|`: the name of the stream and, at some distance, the first digit of
    /// the index.
    pattern: Pattern,
    /// The second and the third eight bytes of names, with masks of the bytes that count.
    rests: [[(u64, u64); 2]; LANES],
    /// Whether some names have more than eight bytes.
    has_long_names: bool,
    /// The entry for each lane.
    order: [u32; LANES],
    /// Exclusive upper bounds of the indices.
    limits: [u32; LANES],
    /// Marks the line feeds among all entries and line feeds.
    feeds: u64,
    /// Remaining credit for learning; see [`Template::see`].
    credit: i32,
    /// Whether the previous line did not fit either.
    has_missed: bool,
    /// Whether lines may begin with textual ids.
    has_text_ids: bool,
    /// Whether the line had such an id, several blanks in a row, or a blank at its end. Looking for
    /// these as well is 5 % slower.
    is_loose: bool,
}

/// Credit of a new segment, and the maximum.
const CREDIT: i32 = 64;

/// Cost of learning from a line.
const FINE: i32 = 2;

/// Maximum length of a name in bytes.
const LONGEST_NAME: usize = 24;

impl Template {
    /// Returns a template that has not learnt anything yet. With `has_text_ids`, lines may begin
    /// with textual ids.
    pub fn new(has_text_ids: bool) -> Template {
        Template { credit: CREDIT, has_text_ids, ..Template::default() }
    }

    /// Whether the form of lines is known.
    #[inline(always)]
    pub fn is_known(&self) -> bool {
        self.entries > 0
    }

    /// Learns from a line that did not fit and was read in another way.
    ///
    /// A single line of another form, such as the first line of each sequence, changes nothing.
    /// Each line that is learnt from costs credit, each line that fits adds some. Without credit,
    /// nothing more is learnt in this segment. This makes lines that look uniform and never fit
    /// (`|w 17:0.5 |t 3:1`) three times as fast.
    #[inline(always)]
    pub fn see(&mut self, line: &[u8], streams: &[Stream]) {
        if line.len() <= BLOCK && (self.has_missed || !self.is_known()) {
            if self.credit > 0 {
                self.learn(line, streams);
            } else {
                self.entries = 0;
            }
        }
        self.has_missed = true;
    }

    #[cold]
    fn learn(&mut self, line: &[u8], streams: &[Stream]) {
        self.credit -= FINE;
        let mut new =
            Template { credit: self.credit, has_text_ids: self.has_text_ids, ..Template::default() };
        let mut limits = [0; LANES];
        for sample in line.split(|&byte| byte == b'|').skip(1).filter(|sample| !sample.starts_with(b"#")) {
            let length = sample.iter().position(|&byte| ends_name(byte)).unwrap_or(0);
            let Some(number) = streams.iter().position(|stream| stream.alias == sample[..length]) else {
                return;
            };
            let stream = &streams[number];
            let colons = sample.iter().filter(|&&byte| byte == b':').count();
            let is_new = !new.streams[..new.entries].contains(&number);
            let is_name = stream.mask != 0 && length <= LONGEST_NAME;
            let fits = is_name && new.entries < LANES && stream.dim > 0;
            if !(stream.sparse && is_new && colons == 1 && fits) {
                return;
            }
            new.streams[new.entries] = number;
            new.pattern.words[new.entries] = stream.name;
            new.pattern.masks[new.entries] = stream.mask;
            new.rests[new.entries] = [8, 16].map(|from| word(&sample[from.min(length)..length]));
            new.has_long_names |= length > 8;
            new.pattern.distances[new.entries] = length as u8 + 2;
            limits[new.entries] = stream.dim as u32;
            new.entries += 1;
        }
        let count = new.entries;
        if count == 0 {
            return;
        }
        for lane in count..LANES {
            let Pattern { words, masks, distances } = &mut new.pattern;
            words[lane] = words[lane - count];
            masks[lane] = masks[lane - count];
            new.rests[lane] = new.rests[lane - count];
            distances[lane] = distances[lane - count];
            limits[lane] = limits[lane - count];
        }
        let is_blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
        let visible = line.trim_ascii_end();
        new.is_loose = line[visible.len()..].iter().any(is_blank)
            || visible.windows(2).any(|two| two.iter().all(is_blank))
            || new.has_text_ids && !matches!(line.first(), Some(b'|' | b'0'..=b'9'));
        let lines = LANES / count;
        for lane in 0..LANES {
            let entry = if lane < lines * count { lane % lines * count + lane / lines } else { lane };
            new.order[lane] = entry as u32;
            new.limits[lane] = limits[entry];
        }
        new.feeds = (count..2 * LANES).step_by(count + 1).fold(0, |feeds, mark| feeds | 1 << mark);
        *self = new;
    }

    /// Whether the names match beyond their first eight bytes.
    #[inline(always)]
    fn names_match(&self, window: Window<'_>, mut pipes: u64) -> bool {
        let mut differing = 0;
        for [second, third] in self.rests.iter().take(pipes.count_ones() as usize) {
            let pipe = pipes.trailing_zeros();
            pipes &= pipes - 1;
            differing |= (window.eight(pipe + 9) ^ second.0) & second.1;
            differing |= (window.eight(pipe + 17) ^ third.0) & third.1;
        }
        differing == 0
    }
}

/// Reads lines between bytes `at` and `end` of the text while they fit the template. `at` must be
/// the start of a line, and `end` the end of one. `None` if there is no memory for the entries.
#[inline(always)]
pub fn read<T: Value, S: Simd>(
    simd: S,
    text: &[u8],
    at: usize,
    end: usize,
    template: &mut Template,
    output: &mut Output<T>,
) -> Option<Taken> {
    match template.is_loose {
        true => read_as::<true, T, S>(simd, text, at, end, template, output),
        false => read_as::<false, T, S>(simd, text, at, end, template, output),
    }
}

/// Body of [`read`].
#[inline(always)]
fn read_as<const LOOSE: bool, T: Value, S: Simd>(
    simd: S,
    text: &[u8],
    mut at: usize,
    end: usize,
    template: &mut Template,
    output: &mut Output<T>,
) -> Option<Taken> {
    // A line takes at least 7 bytes (`|w 1:1` and a line feed), and LANES are written for one of
    // them.
    let most = (end - at) / 4 + LANES;
    let streams = template.streams.get(..template.entries)?;
    for &stream in streams {
        let column = output.columns.get_mut(stream)?;
        column.values.spare(most)?;
        column.indices.spare(most)?;
        column.offsets.spare(most)?;
    }
    let (mut count, mut text_ids) = (0, 0);
    let (mut indices, mut values) = ([0; LANES], [T::default(); LANES]);
    while at < end {
        let Some(window) = Window::at(text, at) else { break };
        let Some((lines, size)) = Lines::find::<LOOSE, S>(simd, window, end - at, template) else { break };
        if !convert(simd, window, &lines, template, &mut indices, &mut values) {
            break;
        }
        let columns = &mut output.columns;
        match streams.len() {
            1 => store_lines::<T, 8>(count, streams, &indices, &values, columns),
            2 => store_lines::<T, 4>(count, streams, &indices, &values, columns),
            3 | 4 => store_lines::<T, 2>(count, streams, &indices, &values, columns),
            _ => store_lines::<T, 1>(count, streams, &indices, &values, columns),
        }?;
        count += lines.feeds.count_ones() as usize;
        text_ids += u64::from(lines.text_ids.count_ones());
        at += size as usize;
    }
    if count > 0 {
        for &stream in streams {
            advance(count, output.columns.get_mut(stream)?)?;
        }
    }
    template.credit = (template.credit + count as i32).min(CREDIT);
    template.has_missed &= count == 0;
    Some(Taken { end: at, lines: count as u32, text_ids })
}

/// Lines that were read with a template.
pub struct Taken {
    /// The place after them.
    pub end: usize,
    /// Number of lines.
    pub lines: u32,
    /// Number of lines that begin with a textual id.
    pub text_ids: u64,
}

/// Masks of whole lines in a block, one bit for each byte.
#[derive(Debug, Clone, Copy)]
struct Lines {
    /// The `|` before names, one for each entry.
    pipes: u64,
    /// The entries.
    entries: Entries,
    /// The line feeds.
    feeds: u64,
    /// The first letters of textual ids.
    text_ids: u64,
}

impl Lines {
    /// Finds the whole lines in the first `length` bytes of a block, with at most [`LANES`]
    /// entries, and returns the number of their bytes as well. `None` if there are none, or if they
    /// have anything other than an id, names with one entry each, comments, and blanks between
    /// these (several in a row only if `LOOSE`). The names, and the number of entries in each line,
    /// still have to be checked.
    #[inline(always)]
    fn find<const LOOSE: bool, S: Simd>(
        simd: S,
        window: Window<'_>,
        length: usize,
        template: &Template,
    ) -> Option<(Lines, u32)> {
        let classes = simd.classify(window);
        let pipes = simd.equal(window, b'|');
        let returns = simd.equal(window, b'\r');
        let mut feeds = simd.lowest(simd.equal(window, b'\n'), length.min(BLOCK) as u32);
        let line_starts = feeds << 1 | 1;
        // A comment extends from its `|` to the next one, or to the line feed; a textual id extends
        // as far from its first letter.
        let comments = pipes & simd.equal(window, b'#') >> 1;
        let text_ids = if LOOSE && template.has_text_ids {
            line_starts & simd.printable(window) & !(classes.digit | pipes)
        } else {
            0
        };
        let comment_ends = run_ends(!(pipes | feeds), comments << 1 | text_ids);
        // Between such an id and the `|`, there must be at least one blank and nothing else.
        let text_ends = run_ends(!(pipes | feeds), text_ids);
        let in_text = text_ends.wrapping_sub(text_ids);
        let after_space = classes.space << 1;
        let no_id = (in_text & after_space & !classes.space) | (text_ends & pipes & !after_space);
        let outside = !comment_ends.wrapping_sub(comments | text_ids);
        while feeds.count_ones() as usize * template.entries > LANES {
            feeds &= u64::MAX >> 1 >> feeds.leading_zeros();
        }
        if feeds == 0 {
            return None;
        }
        let size = 64 - feeds.leading_zeros();
        let known = u64::MAX >> (64 - size);
        let space = classes.space & known;
        let colons = classes.colon & known & outside;
        let digit = classes.digit & known & outside;
        let comments = comments & known;
        let comment_ends = comment_ends & known;
        let pipes = pipes & known & outside;
        let line_starts = line_starts & known;
        let text_ids = text_ids & known;

        // Leave out the digits of names: they follow neither white space, nor a colon, nor the
        // start of a line.
        let runs = digit & !(digit << 1);
        let named = runs & !(space << 1 | colons << 1 | line_starts);
        let digit = digit & digit.wrapping_add(named);
        let runs = runs & !named;
        let ids = runs & line_starts;
        let starts = runs & (space << 1);
        let values = runs & (colons << 1);
        let id_ends = run_ends(digit, ids);
        let index_ends = run_ends(digit, starts);
        let ends = run_ends(digit, values);

        // A line ends with a line feed, or with a carriage return and a line feed, after an entry
        // or a comment and perhaps blanks.
        let returns = returns & (feeds >> 1) & outside;
        let breaks = (feeds & !(returns << 1) & !comment_ends) | returns;
        let gaps = (id_ends | ends) & !breaks;
        let after_gaps = if LOOSE { run_ends(space, gaps) } else { gaps << 1 };
        let next = after_gaps & !breaks;
        let wrong = (no_id & known)
            | (index_ends ^ colons)
            | (values ^ (colons << 1))
            | (breaks & !(if LOOSE { ends | after_gaps } else { ends }))
            | (gaps & !space)
            | ((pipes | comments) ^ (next | comment_ends & !feeds | line_starts & !(digit | text_ids)))
            | long_runs(digit & digit.wrapping_add(ids));
        let entries = Entries { starts, colons, ends };
        (wrong == 0).then_some((Lines { pipes, entries, feeds, text_ids }, size))
    }
}

/// Converts the entries of lines, in the template's order. Returns false if the lines do not fit
/// the template.
#[inline(always)]
fn convert<T: Value, S: Simd>(
    simd: S,
    window: Window<'_>,
    lines: &Lines,
    template: &Template,
    indices: &mut [i32; LANES],
    values: &mut [T; LANES],
) -> bool {
    let Lines { pipes, entries, feeds, .. } = *lines;
    let count = entries.ends.count_ones();
    if count as usize > LANES {
        return false;
    }
    // Each line must end in the right place, each name must match, and its index must begin right
    // after it.
    let marks = pipes | feeds;
    let shape = simd.extract(feeds, marks) ^ simd.lowest(template.feeds, marks.count_ones());
    let follows = simd.follows(window, pipes, entries.starts, count, &template.pattern);
    let are_below =
        simd.entries_in_order(window, entries, &template.order, &template.limits, indices, values);
    (shape == 0) & follows & are_below && (!template.has_long_names || template.names_match(window, pipes))
}

/// Writes the entries of a block's lines to their streams, after the entries of `count` lines that
/// do not count yet. Always writes as many lines as a block can have (`MOST`), the last ones in
/// vain, so that their number need not be predicted.
#[inline(always)]
fn store_lines<T: Value, const MOST: usize>(
    count: usize,
    streams: &[usize],
    indices: &[i32; LANES],
    values: &[T; LANES],
    columns: &mut [Column<T>],
) -> Option<()> {
    let numbers = indices.as_chunks::<MOST>().0.iter().zip(values.as_chunks::<MOST>().0);
    for (&stream, (indices, values)) in streams.iter().zip(numbers) {
        let column = columns.get_mut(stream)?;
        *column.values.chunk(count)? = *values;
        *column.indices.chunk(count)? = *indices;
    }
    Some(())
}

/// Adds the entries of `count` lines, each of which is a sample.
#[inline(always)]
fn advance<T: Value>(count: usize, column: &mut Column<T>) -> Option<()> {
    let first = column.values.len() as u32;
    for (offset, number) in column.offsets.spare(count)?.get_mut(..count)?.iter_mut().zip(1..) {
        *offset = first + number;
    }
    column.values.advance(count);
    column.indices.advance(count);
    column.offsets.advance(count);
    column.samples += count;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctf::parse::fast::{FRONT, Fast, PADDING};
    use crate::ctf::parse::rules::Rules;
    use crate::ctf::tests::rules;
    use cntk_reader_core::cpu::processor::for_each_instruction_set;

    /// Returns the number of lines of `text` that are read with a template like the first one.
    fn taken<S: Simd>(simd: S, text: &str) -> u32 {
        taken_by(simd, &rules("S0:200s w:20000s sixteen16letters:200s seventeen17letter:200s", 0), text)
    }

    fn taken_by<S: Simd>(simd: S, rules: &Rules, text: &str) -> u32 {
        let mut output = Output::<f32>::default();
        output.reset(rules);
        let mut template = Template::new(true);
        let first = text.split_inclusive('\n').next().unwrap_or_default();
        template.see(first.as_bytes(), &Fast::new(rules).streams);
        if !template.is_known() {
            return 0;
        }
        let mut padded = vec![b'7'; FRONT];
        padded.extend(text.as_bytes());
        padded.extend([b'7'; PADDING]);
        let end = FRONT + text.len();
        let taken = read(simd, &padded, FRONT, end, &mut template, &mut output).expect("memory");
        let Taken { end: at, lines, .. } = taken;
        assert!(at == end || lines < text.lines().count() as u32);
        assert!(output.columns.iter().all(|column| column.samples == 0 || column.samples == lines as usize));
        lines
    }

    fn check(text: &str, expected: u32) {
        for_each_instruction_set!(simd => { assert_eq!(taken(simd, text), expected, "{text}") });
    }

    /// Without this, the tests of whole texts might compare other paths with each other.
    #[test]
    fn uniform_lines_are_read() {
        for line in [
            "17 |w 12345:1 |S0 12:1\n",
            "17\t|S0 199:1\t|w 1:255\r\n",
            "|w 1:1\n",
            "123456789012 |w 19999:12345678\n",
            "0 |S0 00000012:1 |w 0:0\n",
            "17\t|S0 48:1\t|# 6f:5 -\t|w 18:1\t|# 7\n",
            "17 |# a 1:1|w 18:1 |#\r\n",
            "|w 1:1 |# one|S0 2:1 |# 1\n",
            "17 |sixteen16letters 12:1 |w 1:1\n",
            "17 |seventeen17letter 12:1\n",
            "1  |w 1:1\n",
            "1 |w 1:1 \n",
            "1\t|w 1:1   |# 1\t\t|S0 1:1 \t\r\n",
            "speaker-7 |w 1:1\n",
            "a:5 \t|# 1|S0 1:1  \n",
            "~ |w 1:1 |# 1\n",
            "1 |w 1:1 |# 1 |# 1|#\n",
            "|# 1|# 2 |w 1:1\n",
        ] {
            check(&line.repeat(30), 30);
        }
        let mixed = "1 |w 1:1 |S0 12:1\n12345 |w 12345:123 |S0 7:1\n|w 00:00 |S0 1:2\n";
        check(&mixed.repeat(9), 27);
    }

    #[test]
    fn other_lines_are_rejected() {
        for line in [
            "1 |w 1.5:1\n",
            "a:5 1:1 |w 1:1\n",
            "~|w 1:1\n",
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
            "1 |w 1:1 |w 1:1\n",
            "1 |w 1:1 |S0 1:1\n",
            "1 || 1:1\n",
            "1 |# 1:1\n",
            "1\n",
            "\n",
            "1 |w 1:1\r\r\n",
            "1 |w 1:1|# 1\n",
            "1 |# 1\n",
            "1 |w 1:1 |# 1 |\n",
            "1 |seventeen17letter 1:1\n",
            "1 |sixteen16letterz 1:1\n",
            " a |w 1:1\n",
            "\u{e9} |w 1:1\n",
            "7a |w 1:1\n",
            "a\n",
            "1 \n",
            "1 |w 1:1 5\n",
        ] {
            check(&format!("1 |w 1:1\n{line}"), 0);
            check(&format!("1 |w 1:1 \n{line}"), 0);
            check(&format!("a |w 1:1\n{line}"), 0);
        }
        // Features that the previous line did not have are not looked for.
        for line in ["1 |w 1:1 \n", "1  |w 1:1\n", "a |w 1:1\n"] {
            check(&format!("1 |w 1:1\n{line}"), 0);
        }
    }

    /// A template is replaced when two lines in a row do not fit it, as long as it has credit.
    #[test]
    fn templates_are_learnt() {
        let rules = rules("S0:200s w:20000s x:3", 0);
        let streams = Fast::new(&rules).streams;
        let (one, two) = (b"1 |w 1:1\n", b"1 |w 1:1 |S0 2:1\n");
        let mut template = Template::new(false);
        assert!(!template.is_known());
        template.see(one, &streams);
        assert_eq!((template.entries, template.credit), (1, CREDIT - FINE));
        template.has_missed = false;
        template.see(two, &streams);
        assert_eq!((template.entries, template.has_missed), (1, true));
        template.see(two, &streams);
        assert_eq!((template.entries, template.credit), (2, CREDIT - 2 * FINE));
        // Lines of other shapes teach nothing, but cost credit.
        for other in [
            &b"1 |x 1 2 3\n"[..],
            b"1 |w 1:1 |w 2:1\n",
            b"1 |w 1:1 2:1\n",
            b"1 |other 1:1\n",
            b"1 |# a comment\n",
            b"1\n",
        ] {
            let mut template = Template::new(false);
            template.see(other, &streams);
            assert_eq!((template.entries, template.credit), (0, CREDIT - FINE), "{}", other.escape_ascii());
        }
        // A line has to fit into a block.
        for (blanks, entries) in [(BLOCK - one.len(), 1), (BLOCK - one.len() + 1, 0)] {
            let mut template = Template::new(false);
            template.see(&[&vec![b' '; blanks], &one[..]].concat(), &streams);
            assert_eq!(template.entries, entries, "{blanks} blanks");
        }
        let mut template = Template { credit: 0, ..template };
        template.see(two, &streams);
        assert_eq!((template.entries, template.credit), (0, 0));
        template.see(two, &streams);
        assert_eq!(template.entries, 0);
    }

    #[test]
    fn lines_that_fit_add_credit() {
        let rules = rules("w:20000s", 0);
        let streams = Fast::new(&rules).streams;
        for_each_instruction_set!(simd => {
            for (text, credit, lines) in [
                ("1 |w 1:1\n".repeat(9), 20, 9),
                ("1 |w 1:1\n".repeat(90), CREDIT, 90),
                ("1 |w 1:-1\n".repeat(9), 11, 0),
            ] {
                let mut output = Output::<f32>::default();
                output.reset(&rules);
                let mut template = Template::new(false);
                template.see(b"1 |w 1:1\n", &streams);
                template.credit = 11;
                let padded = [&[b'7'; FRONT], text.as_bytes(), &[b'7'; PADDING]].concat();
                let end = FRONT + text.len();
                let taken = read(simd, &padded, FRONT, end, &mut template, &mut output).expect("memory");
                assert_eq!((taken.lines, taken.text_ids, template.credit), (lines, 0, credit));
                assert_eq!(template.has_missed, lines == 0);
            }
        });
    }

    #[test]
    fn only_lines_with_several_blanks_or_textual_ids_are_loose() {
        let rules = rules("S0:200s w:20000s", 0);
        let streams = Fast::new(&rules).streams;
        for (line, has_text_ids, is_loose) in [
            ("1 |w 1:1\n", true, false),
            ("1\t|w 1:1\r\n", true, false),
            ("|w 1:1 |S0 1:1\n", true, false),
            ("1 |w 1:1 \n", false, true),
            ("1 |w 1:1\t\r\n", false, true),
            ("1 \t|w 1:1\n", false, true),
            ("a |w 1:1\n", true, true),
            ("a |w 1:1\n", false, false),
        ] {
            let mut template = Template::new(has_text_ids);
            template.see(line.as_bytes(), &streams);
            assert_eq!((template.is_known(), template.is_loose), (true, is_loose), "{line:?}");
        }
    }

    #[test]
    fn names_are_compared_to_their_ends() {
        let name = "twentyfour24letterstwent";
        for length in 1..=name.len() {
            let rules = rules(&format!("{}:200s", &name[..length]), 0);
            let line = |name: &str| format!("1 |{name} 1:1\n");
            let same = line(&name[..length]);
            for_each_instruction_set!(simd => {
                assert_eq!(taken_by(simd, &rules, &same.repeat(3)), 3, "{same}");
                for other in 0..length {
                    let mut bytes = name.as_bytes()[..length].to_vec();
                    bytes[other] ^= 1;
                    let other = line(std::str::from_utf8(&bytes).expect("letters"));
                    let text = format!("{same}{other}");
                    let lines = taken_by(simd, &rules, &text);
                    assert!(lines == 0 || lines == 1 && text.len() > BLOCK, "{text}");
                }
            });
        }
    }
}
