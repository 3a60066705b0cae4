//! The parser for sequences without surprises.
//!
//! Nearly all sequences are well-formed, end with a line break, and call for no message. For those nothing has to be
//! checked against the end of the text (a line break stops every scan), nothing has to be reported, and values can be
//! written straight into memory that was reserved for the longest possible outcome. At the first surprise this parser
//! gives up; its caller takes back what it wrote and lets the exact parser read the sequence. So this one never
//! decides what is an error: it only has to be sure when it says that all is well.

use super::dense::{self, BLOCK, Isa, LEAD, SLACK};
use super::number::{OVERRUN, leading_digits, load8};
use super::output::{Column, Output};
use super::rules::{Rules, ends_name, is_non_printable};
use super::simd::{self, Pairs};
#[cfg(target_arch = "x86_64")]
use super::simd::{avx2, avx512};
use super::sparse::sparse;
use super::uniform_lines::lines;
use crate::compact::Value;
use crate::deserialize::text::index::SequenceSpan;
use crate::log::Level;
use crate::processor::Processor;

/// Bytes that must be readable behind a text.
pub const PADDING: usize = BLOCK + OVERRUN;

/// Bytes that must be readable before a text.
pub const FRONT: usize = LEAD;

/// Samples up to this dimension are read value by value.
const FEW: usize = 3;

/// The parser for one file.
#[derive(Debug)]
pub struct Fast {
    pub streams: Vec<Stream>,
    longest_alias: usize,
    main: Option<usize>,
    strict: bool,
    /// No warnings are shown, so that what is only warned about can be done here.
    quiet: bool,
    /// Everything is to be told.
    chatty: bool,
    processor: Processor,
}

/// What of a stream's rule is looked at.
#[derive(Debug)]
pub struct Stream {
    /// The name, up to 8 bytes of it, first byte lowest.
    pub name: u64,
    /// Which bytes of it count; none if no name in a text is this one.
    pub mask: u64,
    pub alias: Vec<u8>,
    pub dim: usize,
    pub sparse: bool,
}

impl Fast {
    /// The parser for a file with these rules.
    pub fn new(rules: &Rules) -> Fast {
        let stream = |rule: &super::rules::StreamRule| {
            let mut name = [0; 8];
            let mut mask = [0; 8];
            for (i, &byte) in rule.alias.iter().take(8).enumerate() {
                name[i] = byte;
                mask[i] = 0xff;
            }
            // A name that cannot be read (with a space in it, say) never matches.
            let readable = !rule.alias.is_empty()
                && rule.alias[0] != b'#'
                && !rule.alias.iter().any(|&byte| ends_name(byte));
            if !readable {
                (name, mask) = ([0xff; 8], [0; 8]);
            }
            Stream {
                name: u64::from_le_bytes(name),
                mask: u64::from_le_bytes(mask),
                alias: rule.alias.clone(),
                dim: rule.dim,
                sparse: rule.sparse,
            }
        };
        Fast {
            streams: rules.streams.iter().map(stream).collect(),
            longest_alias: rules.longest_alias,
            main: rules.main,
            strict: rules.strict,
            quiet: !rules.log.shows(Level::Warning),
            chatty: rules.log.shows(Level::Info),
            processor: Processor::detect(),
        }
    }

    /// The same with other instructions.
    #[cfg(test)]
    pub fn on(rules: &Rules, processor: Processor) -> Fast {
        assert!(processor.is_here());
        Fast { processor, ..Fast::new(rules) }
    }

    /// Reads the sequence at `at` in `text` and commits it; or returns false, with part of it written and nothing
    /// committed.
    pub fn read_sequence<T: Value>(
        &self,
        span: &SequenceSpan,
        text: &[u8],
        at: usize,
        output: &mut Output<T>,
    ) -> bool {
        let end = at + span.size as usize;
        if self.chatty || span.size == 0 || at < FRONT || end + PADDING > text.len() || text[end - 1] != b'\n'
        {
            return false;
        }
        // SAFETY: the text is readable from `at` to `end`, FRONT bytes before and PADDING bytes behind, and a line break
        // is the last byte before `end`. `self.processor` is here: [`Processor::is_here`].
        let result = unsafe {
            let (first, end) = (text.as_ptr().add(at), text.as_ptr().add(end));
            match self.processor {
                #[cfg(target_arch = "x86_64")]
                Processor::Avx512 => self.rows_avx512(span, first, end, output),
                #[cfg(target_arch = "x86_64")]
                Processor::Avx2 => self.rows_avx2(span, first, end, output),
                #[cfg(target_arch = "x86_64")]
                Processor::Sse2 => self.rows::<T, avx2::Sse2>(span, first, end, output),
                Processor::Any => self.rows::<T, dense::Portable>(span, first, end, output),
            }
        };
        if result.is_none() || !self.is_complete(span.samples, output) {
            return false;
        }
        output.commit();
        true
    }

    /// Whether the lengths of the streams need no remark.
    fn is_complete<T: Value>(&self, expected: u32, output: &Output<T>) -> bool {
        let mut longest = 0;
        for (i, column) in output.columns.iter().enumerate() {
            let samples = column.samples_here();
            if samples == 0 {
                return false;
            }
            if self.main.is_none_or(|main| main == i) {
                longest = longest.max(samples);
            }
        }
        longest == expected as usize || (longest < expected as usize && !self.strict)
    }

    /// # Safety
    /// As for [`Fast::rows`]; the processor must have what [`Processor::Avx512`] needs.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni")]
    unsafe fn rows_avx512<T: Value>(
        &self,
        span: &SequenceSpan,
        p: *const u8,
        end: *const u8,
        output: &mut Output<T>,
    ) -> Option<()> {
        // SAFETY: promised by the caller.
        unsafe { self.rows::<T, avx512::Avx512>(span, p, end, output) }
    }

    /// # Safety
    /// As for [`Fast::rows`]; the processor must have what [`Processor::Avx2`] needs.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn rows_avx2<T: Value>(
        &self,
        span: &SequenceSpan,
        p: *const u8,
        end: *const u8,
        output: &mut Output<T>,
    ) -> Option<()> {
        // SAFETY: promised by the caller.
        unsafe { self.rows::<T, avx2::Avx2>(span, p, end, output) }
    }

    /// All rows of a sequence. `None` at the first surprise.
    ///
    /// # Safety
    /// The bytes from `p` to `end`, [`FRONT`] bytes before and [`PADDING`] bytes behind must be readable, and a line break must be the last
    /// byte before `end`. The processor must have what `I` names.
    #[inline(always)]
    unsafe fn rows<T: Value, I: Pairs>(
        &self,
        span: &SequenceSpan,
        mut p: *const u8,
        end: *const u8,
        output: &mut Output<T>,
    ) -> Option<()> {
        // An entry takes 4 bytes at least (`1:2` and what ends it), a sample 2 (`|`, a name).
        let bytes = span.size as usize;
        for (stream, column) in self.streams.iter().zip(&mut output.columns) {
            if stream.sparse {
                column.values.reserve(bytes / 4 + simd::SLACK);
                column.rows.reserve(bytes / 4 + simd::SLACK);
                column.starts.reserve(bytes / 2 + simd::SLACK);
            }
        }
        let mut rows = 0;
        let mut guess = 0;
        // SAFETY: `p` moves over bytes before `end` only, because each scan ends at the line break that ends the
        // sequence, at the latest: digits, names, samples and comments all do. The outputs have room, as reserved
        // above for sparse and below for dense samples.
        unsafe {
            while p < end {
                if I::LINES {
                    let (after, alike) = lines::<T, I>(p, end, output);
                    if alike > 0 {
                        p = after;
                        rows += alike;
                        continue;
                    }
                }
                let line = p;
                // The id.
                loop {
                    let (count, _) = leading_digits(load8(p));
                    p = p.add(count as usize);
                    if count < 8 {
                        break;
                    }
                }
                let mut samples = 0;
                loop {
                    let byte = *p;
                    if byte == b'|' {
                        p = p.add(1);
                        if *p == b'#' {
                            p = skip(p, end);
                            continue;
                        }
                        let Some((stream, length)) = self.name(p, guess) else {
                            p = self.unknown(p, end)?;
                            continue;
                        };
                        guess = if stream + 1 == self.streams.len() { 0 } else { stream + 1 };
                        let rule = self.streams.get_unchecked(stream);
                        let column = output.columns.get_unchecked_mut(stream);
                        p = p.add(length);
                        p = if rule.sparse {
                            sparse::<T, I>(p, rule.dim, column)?
                        } else {
                            self.dense::<T, I>(p, rule.dim, column)?
                        };
                        column.samples += 1;
                        samples += 1;
                    } else if byte == b'\n' {
                        p = p.add(1);
                        break;
                    } else if byte == b' ' || is_non_printable(byte) {
                        p = p.add(1);
                    } else {
                        return None;
                    }
                }
                if samples == 0 || (samples > self.streams.len() && !self.quiet) {
                    return None;
                }
                rows += 1;
                if I::LINES {
                    let line = std::slice::from_raw_parts(line, p.offset_from_unsigned(line));
                    output.template.see(line, &self.streams);
                }
            }
        }
        (rows >= span.samples || self.quiet).then_some(())
    }

    /// The stream whose name stands at `p`, and the name's length; `guess` is the likely one.
    ///
    /// # Safety
    /// As for [`Fast::rows`].
    #[inline(always)]
    unsafe fn name(&self, p: *const u8, guess: usize) -> Option<(usize, usize)> {
        // SAFETY: 8 bytes from a byte before the end are readable.
        let text = unsafe { load8(p) };
        let count = self.streams.len();
        let mut stream = guess;
        for _ in 0..count {
            // SAFETY: `stream` stays below the number of streams.
            let rule = unsafe { self.streams.get_unchecked(stream) };
            if (text ^ rule.name) & rule.mask == 0 && rule.mask != 0 {
                let length = rule.alias.len();
                // SAFETY: all bytes of the alias were found in the text, or are looked for within its padding, if it
                // is short, or byte by byte up to the first that differs; a line break differs from all of them.
                let found =
                    unsafe { (8..length).all(|i| *p.add(i) == rule.alias[i]) && ends_name(*p.add(length)) };
                if found {
                    return Some((stream, length));
                }
            }
            stream = if stream + 1 == count { 0 } else { stream + 1 };
        }
        None
    }

    /// Skips an unknown input: a name at `p` and what follows it. `None` if there is no name.
    ///
    /// # Safety
    /// As for [`Fast::rows`].
    #[cold]
    unsafe fn unknown(&self, p: *const u8, end: *const u8) -> Option<*const u8> {
        // SAFETY: `p` lies before the last line break.
        let byte = unsafe { *p };
        if ends_name(byte) || self.longest_alias == 0 {
            return None;
        }
        // SAFETY: promised by the caller.
        Some(unsafe { skip(p, end) })
    }

    /// One dense sample.
    ///
    /// # Safety
    /// As for [`Fast::rows`].
    #[inline(always)]
    unsafe fn dense<T: Value, I: Isa>(
        &self,
        p: *const u8,
        dim: usize,
        column: &mut Column<T>,
    ) -> Option<*const u8> {
        column.values.try_reserve(dim + SLACK).ok()?;
        let length = column.values.len();
        // SAFETY: there is room for `dim` and SLACK values behind `length`; the text is as the caller promises. Values that were
        // not written are filled in before they are counted.
        unsafe {
            let out = column.values.as_mut_ptr().add(length);
            let (p, count) = if dim <= FEW {
                dense::dense_few::<T>(p, out, dim)?
            } else {
                dense::dense::<T, I>(p, out, dim)?
            };
            if count < dim {
                if !self.quiet {
                    return None;
                }
                for i in count..dim {
                    out.add(i).write(T::default());
                }
            }
            column.values.set_len(length + dim);
            Some(p)
        }
    }
}

/// The next `|` or line break.
///
/// # Safety
/// The bytes from `p` to `end` must be readable, and a line break must be the last of them.
#[inline(always)]
unsafe fn skip(p: *const u8, end: *const u8) -> *const u8 {
    // SAFETY: promised by the caller.
    unsafe {
        let text = std::slice::from_raw_parts(p, end.offset_from_unsigned(p));
        p.add(memchr::memchr2(b'|', b'\n', text).unwrap_or(text.len() - 1))
    }
}
