//! Causes of warnings and errors in a text, with their consequences and remedies.

use super::bad_id::BadId;
use super::excerpt::Excerpt;
use super::number::Flaw;
use super::typed::Misfit;
use cntk_reader_core::stream::ElementType;

/// Name of a line in [`Cause::Ended`]: text may end there without harm. CNTK also uses it if the
/// text ends in a number.
pub(crate) const IN_LINE: &str = "an input row";

/// A finding in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A line without a sample.
    EmptyLine,
    /// More samples in a line than there are streams.
    CrowdedLine { samples: usize },
    /// A line that could not be read. `line` counts the sequence's lines from 1.
    BadLine { line: usize },
    /// The text ended inside the named part: a line, a sample, a name or a number.
    Ended(&'static str),
    /// Fewer lines than the index has.
    FewLines { lines: usize, expected: u32 },
    /// The file is shorter than its index.
    FileEnded,
    /// No `|` where a name has to begin.
    NoPrefix(u8),
    /// A line that begins with a textual id. CNTK skips the id like other characters before a `|`,
    /// and counts an error.
    TextId(u8),
    /// No `|`, because of the beginning of the line: its id does not count, or not as it is
    /// written.
    BadId { found: u8, why: BadId },
    /// No name after `|`.
    NoName(u8),
    /// A name longer than every name of the configuration, for a release that refuses it.
    LongName,
    /// A dense sample with too few values. The missing ones are zeros.
    ShortSample { dim: usize, values: usize },
    /// A dense sample with too many values.
    LongSample { dim: usize, values: usize },
    /// Not a number.
    Number(Flaw),
    /// A character other than a digit where an index must begin.
    NoIndex(u8),
    /// An index beyond 64 bits.
    IndexOverflow,
    /// An index beyond the stream's dimension.
    IndexTooLarge { index: u64, dim: usize },
    /// No `:` after an index.
    NoColon { index: u64, found: u8 },
    /// More samples than the index has.
    TooManySamples {
        /// Samples that were read.
        samples: usize,
        /// Samples that the index has.
        expected: u32,
        /// Whether there are carriage returns without line feeds where lines seem to end.
        lone_returns: bool,
    },
    /// Fewer samples than the index has.
    TooFewSamples { samples: usize, expected: u32 },
    /// A stream without a sample.
    EmptyStream,
    /// A number that does not fit the type of the values: it becomes an infinity, or NaN. CNTK
    /// delivers it silently.
    NotFinite { is_nan: bool },
    /// A number other than 0 that becomes 0, because it is closer to 0 than any value of the type.
    Underflow,
    /// A number that is not a value of the type that its stream declares.
    Misfit { misfit: Misfit, element: ElementType, found: Excerpt },
    /// A sample of ids without an entry, or with several.
    NoId { entries: usize },
    /// A sample of ids whose entry has a value other than 1.
    WeightedId,
}

impl Cause {
    /// Whether it is noticed at the end of the sequence and concerns the sequence as a whole.
    pub(crate) fn is_of_sequence(&self) -> bool {
        matches!(
            self,
            Cause::FewLines { .. }
                | Cause::TooManySamples { .. }
                | Cause::TooFewSamples { .. }
                | Cause::EmptyStream
        )
    }

    /// Returns a plural noun for findings of this kind.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Cause::EmptyLine => "lines without samples",
            Cause::CrowdedLine { .. } => "lines with more samples than there are streams",
            Cause::BadLine { .. } => "lines that could not be read",
            Cause::Ended(_) => "sequences that end without a line break",
            Cause::FewLines { .. } => "sequences with fewer good lines than expected",
            Cause::FileEnded => "sequences that are missing in the file",
            Cause::NoPrefix(_) => "characters in place of '|'",
            Cause::TextId(_) => "lines that begin with an id that is text",
            Cause::BadId { why, .. } => why.plural(),
            Cause::NoName(_) => "samples without a name",
            Cause::LongName => "names that are longer than every stream's name",
            Cause::ShortSample { .. } => "dense samples with too few values",
            Cause::LongSample { .. } => "dense samples with too many values",
            Cause::Number(_) => "values that are not numbers",
            Cause::NoIndex(_) => "sparse values without an index",
            Cause::IndexOverflow => "indices of more than 64 bits",
            Cause::IndexTooLarge { .. } => "indices beyond the dimension",
            Cause::NoColon { .. } => "indices without ':' after them",
            Cause::TooManySamples { .. } => "sequences with more samples than lines",
            Cause::TooFewSamples { .. } => "sequences with fewer samples than lines",
            Cause::EmptyStream => "sequences without a sample",
            Cause::NotFinite { .. } => "values that are infinite or NaN",
            Cause::Underflow => "values that become 0 because they are too small",
            Cause::Misfit { misfit: Misfit::Fraction, .. } => "values that are not integers",
            Cause::Misfit { misfit: Misfit::Range, .. } => "values beyond the range of their type",
            Cause::NoId { .. } => "samples of ids without exactly one entry",
            Cause::WeightedId => "ids with a value other than 1",
        }
    }

    /// Whether it is noted at the offset after the line that it concerns.
    pub(super) fn follows_its_line(self) -> bool {
        matches!(
            self,
            Cause::EmptyLine
                | Cause::CrowdedLine { .. }
                | Cause::BadLine { .. }
                | Cause::FewLines { .. }
                | Cause::TooManySamples { .. }
                | Cause::TooFewSamples { .. }
                | Cause::EmptyStream
        )
    }

    /// Whether the sample is left out if reading goes on.
    fn skips_sample(self) -> bool {
        matches!(
            self,
            Cause::LongSample { .. }
                | Cause::IndexTooLarge { .. }
                | Cause::NoIndex(_)
                | Cause::NoColon { .. }
                | Cause::Number(_)
                | Cause::Misfit { .. }
                | Cause::NoId { .. }
                | Cause::WeightedId
        )
    }

    /// Returns the consequence and the remedy, for a warning; empty if the message says them.
    pub(crate) fn advice(self) -> String {
        let consequence = if self.skips_sample() { "The sample is left out. " } else { "" };
        format!("{consequence}{}", self.remedy())
    }

    /// Returns what to do, in whole sentences; empty if the message says it.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Cause::ShortSample { .. } => {
                "The missing values are zeros. Set ‹dim› to the number of values, or write all of them."
            }
            Cause::LongSample { .. } => "Set ‹dim› to the number of values.",
            Cause::IndexTooLarge { .. } => {
                "Set ‹dim› to one more than the largest index; indices count from 0."
            }
            Cause::CrowdedLine { .. } => {
                "A line has at most one sample of each stream: begin a new line for the next one."
            }
            Cause::NoIndex(b'-') => "Indices count from 0 and have no sign.",
            Cause::NoIndex(b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'"') => {
                "A sparse sample is 'index:value' pairs; number classes and words from 0."
            }
            Cause::NoIndex(_) | Cause::NoColon { .. } => {
                "A sparse sample is 'index:value' pairs; set ‹dense› if it is plain values."
            }
            Cause::Number(flaw) => match flaw.found() {
                Some(b',') => "Write a point in place of a decimal comma, and blanks between values.",
                Some(b':') => {
                    "A dense sample has values only; set ‹sparse› if it is \
                     'index:value' pairs."
                }
                Some(b'.') => "A number begins with a digit and has at most one point: 0.5, not .5 or 1.2.3.",
                Some(b'n' | b'N' | b'i' | b'I') => {
                    "Values are finite numbers: NaN and infinities cannot be read."
                }
                _ => "Values are numbers such as 1, -0.5 or 2e-3, with blanks between them.",
            },
            Cause::TextId(_) => {
                "The id is text: CNTK 2.7 counts an error for each line that begins with one, and reads the line all the same. Set \
                 ‹max_malformed› of the deserializer to the number of these lines or more, or number the sequences."
            }
            Cause::NoPrefix(_) => "Samples begin with '|' and the name of their stream.",
            Cause::BadId { why, .. } => why.remedy(),
            Cause::NoName(_) => "The name of a stream follows '|' without a blank between them.",
            Cause::LongName => {
                "This release of CNTK counts an error for each: add a stream of this name, or raise ‹max_malformed›."
            }
            Cause::EmptyLine => {
                "It has no sample of any stream that is read: add one, correct its names, or remove the line."
            }
            Cause::Ended(_) => {
                "End the last line with a line break; if it is incomplete, the file was truncated."
            }
            Cause::TooManySamples { lone_returns: true, .. } => BadId::LoneReturn.remedy(),
            Cause::TooManySamples { .. } => {
                "The length of a sequence is its number of lines, or the length of the stream with ‹defines_minibatch_size = true›: no stream may be longer."
            }
            Cause::TooFewSamples { .. } => {
                "At least one stream needs a sample in each line of the sequence; or set ‹strict_sequences = false›."
            }
            Cause::FileEnded => {
                "It was truncated while it was in use: write it again, and open the reader again."
            }
            Cause::NotFinite { is_nan: false } => {
                "It is delivered as infinity, as by CNTK, and spoils most training. The largest float is about 3.4e38, the largest \
                 double 1.8e308: correct the number, or set ‹double_precision› if it is within the range of a double."
            }
            Cause::NotFinite { is_nan: true } => {
                "It is delivered as NaN, as by CNTK, and spoils training: correct the number."
            }
            Cause::Underflow => {
                "The smallest float is about 1e-45, the smallest double 5e-324: write 0, scale the values, or set \
                 ‹double_precision›."
            }
            Cause::Misfit { misfit: Misfit::Fraction, .. } => {
                "Write integers, or set ‹element› to a floating-point type."
            }
            Cause::Misfit { misfit: Misfit::Range, .. } => {
                "Correct the number, or set ‹element› to a type with this range."
            }
            Cause::NoId { .. } => {
                "Each sample of a stream with ‹ids› has one entry, 'index:1'; without ‹ids› it is \
                 delivered sparse."
            }
            Cause::WeightedId => {
                "The entry of a sample is 'index:1' in a stream with ‹ids›; without ‹ids› it is \
                 delivered sparse, with its value."
            }
            Cause::BadLine { .. } | Cause::FewLines { .. } | Cause::IndexOverflow | Cause::EmptyStream => "",
        }
    }
}
