//! Segments: runs of consecutive sequences of a chunk that one thread reads and parses together.

use super::index::SequenceSpan;
use super::parse::exact;
use super::parse::fast::{FRONT, Fast, PADDING};
use super::parse::output::Column;
pub(crate) use super::parse::output::Output;
use super::parse::report::{Line, Report, Stop, WarningKind};
use super::parse::rules::Rules;
use cntk_reader_core::Result;
use cntk_reader_core::memory::compact::arena::{Arena, Recycler};
use cntk_reader_core::memory::compact::narrow::{self, Narrow};
use cntk_reader_core::memory::compact::{Value, ValueForm, decimal, finite, implied};
use cntk_reader_core::memory::{Zeros, room};
use std::cell::Cell;

/// Layout of one stream's data in a segment's memory. Values and offsets that follow from a rule
/// are not stored: packing a randomized minibatch is bound by memory, and words and labels take a
/// third of the memory this way.
#[derive(Debug, Clone, Copy)]
pub struct StreamLayout {
    /// The word at which the values begin; `None` if they are all 1 ([`implied`]).
    pub values: Option<usize>,
    /// How the values are stored ([`narrow`]).
    pub form: ValueForm,
    /// Sparse streams: the word at which the indices begin.
    pub indices: usize,
    /// Whether indices are `u16` ([`narrow`]).
    pub narrow_indices: bool,
    /// Sparse streams: the word at which the table of entries before each sample begins; `None` if
    /// every sample has one entry ([`implied`]).
    pub offsets: Option<usize>,
    /// The word at which the table of samples before each sequence begins; `None` if every sequence
    /// is one sample. Streams with equal tables share one.
    pub sequence_offsets: Option<usize>,
}

/// A parsed segment.
#[derive(Debug)]
pub struct Segment {
    /// The memory of all its data.
    pub arena: Arena,
    /// Layout of each stream's data in `arena`.
    pub layouts: Vec<StreamLayout>,
    /// Indices of the sequences that were left out, ascending.
    pub skipped: Vec<u32>,
    /// Number of errors in the segment that were tolerated.
    pub errors: u64,
    /// Why reading stopped before the segment's end, if it did.
    pub stop: Option<Stop>,
    /// Messages that have not been logged yet.
    pub lines: Vec<Line>,
    /// Numbers of warnings, by kind.
    pub counts: Vec<(WarningKind, u64)>,
}

/// A thread's buffers for reading and parsing, kept from one segment to the next.
#[derive(Debug, Default)]
pub struct Scratch<T> {
    /// The segment's text with [`FRONT`] bytes before it and [`PADDING`] bytes after it.
    pub text: Zeros<u8>,
    /// The parsed data.
    pub output: Output<T>,
}

/// Value types with a [`Scratch`] on each thread.
pub trait Scratched: Narrow {
    /// Runs `work` with the thread's scratch memory.
    fn with_scratch<R>(work: impl FnOnce(&mut Scratch<Self>) -> R) -> R;
}

macro_rules! scratched {
    ($type:ty, $name:ident) => {
        thread_local! {
            static $name: Cell<Option<Box<Scratch<$type>>>> = const { Cell::new(None) };
        }

        impl Scratched for $type {
            fn with_scratch<R>(work: impl FnOnce(&mut Scratch<$type>) -> R) -> R {
                // Taken out and put back: nested use gets another scratch, and after a panic the
                // next use makes a new one.
                let mut scratch = $name.try_with(Cell::take).ok().flatten().unwrap_or_default();
                let result = work(&mut scratch);
                scratch.trim();
                let _ = $name.try_with(|place| place.set(Some(scratch)));
                result
            }
        }
    };
}

scratched!(f32, FLOATS);
scratched!(f64, DOUBLES);

/// Bytes of text buffer that a thread keeps between segments.
const TEXT_KEPT: usize = 8 << 20;

/// Bytes of values and indices that a thread keeps between segments.
const OUTPUT_KEPT: usize = 32 << 20;

impl<T: Value> Scratch<T> {
    /// Memory for a text of `size` bytes, between [`FRONT`] and [`PADDING`] bytes of padding.
    pub fn text_mut(&mut self, size: usize) -> Result<&mut [u8]> {
        let bytes = FRONT + size + PADDING;
        self.text.grow(bytes).ok_or_else(|| room::missing(bytes, room::CHUNK))?;
        Ok(&mut self.text[FRONT..FRONT + size])
    }

    /// Frees buffers that are larger than a thread may keep.
    fn trim(&mut self) {
        if self.text.len() > TEXT_KEPT {
            self.text = Zeros::default();
        }
        if self.output.bytes() > OUTPUT_KEPT {
            self.output = Output::default();
        }
    }
}

/// Parses the sequences of a segment. The outer error is about memory, the inner one about the
/// text. `text` is the buffer of a [`Scratch`], the number of bytes of the file in it, and their
/// offset in the file.
pub fn parse<T: Value>(
    rules: &Rules,
    fast: &Fast,
    spans: impl Iterator<Item = SequenceSpan>,
    text: (&[u8], usize, u64),
    output: &mut Output<T>,
    report: &mut Report<'_>,
) -> Result<std::result::Result<(), Stop>> {
    parse_on(rules, fast, spans, text, output, report, |stop, _, _| Err(stop))
}

/// Like [`parse`], but continues with the next sequence after a failure if `on_stop` returns `Ok`.
pub fn parse_on<'r, T: Value>(
    rules: &Rules,
    fast: &Fast,
    mut spans: impl Iterator<Item = SequenceSpan>,
    text: (&[u8], usize, u64),
    output: &mut Output<T>,
    report: &mut Report<'r>,
    mut on_stop: impl FnMut(Stop, &mut Output<T>, &mut Report<'r>) -> std::result::Result<(), Stop>,
) -> Result<std::result::Result<(), Stop>> {
    let (text, length, base) = text;
    output.reset(rules);
    let mut fast = fast.segment();
    fast.unknown = report.wants_names();
    // Not a `for` loop, which would copy the result of `next` (4 % slower for samples of 200
    // bytes).
    let parsed = spans.try_for_each(|span| {
        let at = FRONT + (span.offset.saturating_sub(base) as usize).min(length);
        let end = (at + span.size as usize).min(FRONT + length);
        let whole = end - at == span.size as usize && span.offset >= base;
        if whole && fast.read_sequence(&span, text, at, output, report) {
            return Ok(());
        }
        output.roll_back();
        exact::read_sequence(rules, &span, &text[at..end], output, report)
            .or_else(|stop| on_stop(stop, output, report))
    });
    fast.unknown.into_iter().for_each(|names| report.add_names(names));
    output.check_memory()?;
    Ok(parsed)
}

/// Copies the parsed data into memory of exactly its size. With `narrow`, values and indices may be
/// stored in fewer bytes. The last result is the number of infinite or NaN values by stream; only
/// values in full width can be either.
pub fn pack<T: Scratched>(
    rules: &Rules,
    output: &mut Output<T>,
    narrow: bool,
    recycler: &Recycler,
) -> Result<(Arena, Vec<StreamLayout>, Vec<u64>)> {
    let stored: Vec<Stored> =
        (0..output.columns.len()).map(|i| Stored::of(rules, output, i, narrow)).collect::<Result<_>>()?;
    let words = |column: &Column<T>, stored: &Stored| {
        let size = |is_stored: bool, words: usize| if is_stored { words } else { 0 };
        let values = match stored.values {
            None => 0,
            Some(_) if stored.source == ValueSource::Indices => 0,
            Some(_) if stored.source == ValueSource::Typed => Arena::words_for::<u8>(column.typed.len()),
            Some(form) => Arena::words_for::<u8>(column.values.len() * form.size(size_of::<T>())),
        };
        let indices = match stored.indices {
            Indices::None => 0,
            Indices::Narrow => Arena::words_for::<u16>(column.indices.len()),
            Indices::Whole => Arena::words_for::<i32>(column.indices.len()),
        };
        values
            + indices
            + size(stored.offsets, Arena::words_for::<u32>(column.offsets.len()))
            + size(
                stored.sequence_offsets == SequenceOffsets::Own,
                Arena::words_for::<u32>(column.sequence_offsets.len()),
            )
    };
    let mut arena =
        recycler.take(output.columns.iter().zip(&stored).map(|(column, s)| words(column, s)).sum())?;
    let mut layouts: Vec<StreamLayout> = Vec::with_capacity(stored.len());
    for (column, stored) in output.columns.iter().zip(&stored) {
        // Stored in the order in which a look-up reads them.
        let sequence_offsets = match stored.sequence_offsets {
            SequenceOffsets::Ones => None,
            SequenceOffsets::Own => Some(arena.push(&column.sequence_offsets)),
            SequenceOffsets::Of(stream) => layouts[stream].sequence_offsets,
        };
        let offsets = stored.offsets.then(|| arena.push(&column.offsets));
        let indices = match stored.indices {
            Indices::None => 0,
            Indices::Narrow => arena.push(&column.narrow_indices),
            Indices::Whole => arena.push(&column.indices),
        };
        let values = stored.values.map(|form| match stored.source {
            ValueSource::Indices => indices,
            ValueSource::Typed => arena.push(&column.typed),
            ValueSource::Values if form == ValueForm::Whole => arena.push(&column.values),
            ValueSource::Values => arena.push(&column.narrow_values),
        });
        layouts.push(StreamLayout {
            sequence_offsets,
            offsets,
            indices,
            narrow_indices: stored.indices == Indices::Narrow,
            values,
            form: stored.values.unwrap_or(ValueForm::Whole),
        });
    }
    let columns = output.columns.iter().zip(&rules.streams).zip(&layouts);
    let not_finite = columns.map(|((column, rule), layout)| match layout {
        _ if rule.is_ids() => 0,
        _ if rule.typed.is_some() => rule.typed.map_or(0, |typed| typed.not_finite(&column.typed)),
        StreamLayout { values: Some(_), form: ValueForm::Whole, .. } => {
            finite::count_not_finite(&column.values)
        }
        _ => 0,
    });
    let not_finite = not_finite.collect();
    Ok((arena, layouts, not_finite))
}

/// Samples of at least this many values, on average if they are sparse, may be stored as decimals.
/// Each sample is widened by a separate call, which does not pay for shorter samples.
const LONG_SAMPLE: usize = 16;

/// Maximum bytes of a decimal in a sparse stream. 3 bytes take longer to widen: later sweeps over
/// entries with six decimals are 6 to 12 % slower.
const WIDEST_SPARSE: usize = 2;

/// Storage plan of a stream: which parts are stored, and how.
struct Stored {
    /// `None` if the values are not stored, because all are 1 ([`implied`]).
    values: Option<ValueForm>,
    source: ValueSource,
    indices: Indices,
    offsets: bool,
    sequence_offsets: SequenceOffsets,
}

/// Source of a stream's values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueSource {
    /// [`Column::values`].
    Values,
    /// [`Column::typed`].
    Typed,
    /// The indices, which are class numbers.
    Indices,
}

/// How indices are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Indices {
    /// The stream is dense.
    None,
    /// As `u16`.
    Narrow,
    /// As `i32`.
    Whole,
}

/// How the table of samples before each sequence is stored.
#[derive(PartialEq, Eq)]
enum SequenceOffsets {
    /// Every sequence is one sample.
    Ones,
    /// The stream has its own table.
    Own,
    /// The table equals the one of the earlier stream with this number.
    Of(usize),
}

impl Stored {
    /// Decides how a stream is stored, and fills the narrow arrays of its column where they are
    /// used.
    fn of<T: Scratched>(
        rules: &Rules,
        output: &mut Output<T>,
        stream: usize,
        narrow: bool,
    ) -> Result<Stored> {
        let sequence_offsets = SequenceOffsets::of(output, stream);
        let column = &mut output.columns[stream];
        let rule = &rules.streams[stream];
        let of_values = |column: &mut Column<T>| {
            if !narrow {
                return Ok(ValueForm::Whole);
            }
            let widest = match rule.sparse {
                true if column.values.len() >= LONG_SAMPLE * column.samples => WIDEST_SPARSE,
                false if rule.dim >= LONG_SAMPLE => decimal::WIDEST,
                _ => 0,
            };
            narrow::store_values(&column.values, widest, &mut column.narrow_values)
        };
        let of_indices = |column: &mut Column<T>| -> Result<Indices> {
            let is_narrow = narrow && narrow::store_indices(&column.indices, &mut column.narrow_indices)?;
            Ok(if is_narrow { Indices::Narrow } else { Indices::Whole })
        };
        if rule.is_ids() {
            let indices = of_indices(column)?;
            let values = Some(ValueForm::of_indices(rule.element, indices == Indices::Narrow));
            return Ok(Stored {
                values,
                source: ValueSource::Indices,
                indices,
                offsets: false,
                sequence_offsets,
            });
        }
        if rule.delivered.is_some() {
            let (source, values) = match rule.typed {
                Some(_) => (ValueSource::Typed, ValueForm::Whole),
                None => (ValueSource::Values, of_values(column)?),
            };
            let (values, indices) = (Some(values), Indices::None);
            return Ok(Stored { values, source, indices, offsets: false, sequence_offsets });
        }
        let entry = |sample: u32| column.offsets[sample as usize] as usize;
        let short = column.sequence_offsets.windows(2).all(|pair| {
            let entries = entry(pair[1]) - entry(pair[0]);
            entries.max((pair[1] - pair[0]) as usize) <= implied::LONGEST
        });
        let offsets = !short || !implied::are_single(&column.offsets);
        let values = match short && implied::are_ones(&column.values) {
            true => None,
            false => Some(of_values(column)?),
        };
        let indices = of_indices(column)?;
        Ok(Stored { values, source: ValueSource::Values, indices, offsets, sequence_offsets })
    }
}

impl SequenceOffsets {
    fn of<T: Scratched>(output: &Output<T>, stream: usize) -> SequenceOffsets {
        let column = &output.columns[stream];
        let sequences = output.sequences() as usize;
        // Every sequence has a sample, so equal counts mean one sample each, unless sequences were
        // left out.
        let ones = |column: &Column<T>| output.skipped.is_empty() && column.samples == sequences;
        if ones(column) {
            return SequenceOffsets::Ones;
        }
        let same = |other: &Column<T>| !ones(other) && *other.sequence_offsets == *column.sequence_offsets;
        output.columns[..stream].iter().position(same).map_or(SequenceOffsets::Own, SequenceOffsets::Of)
    }
}
