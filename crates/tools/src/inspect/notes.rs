//! Notes about data that are legal and read without a message, but most likely not what the user
//! meant.

use super::inspector::InspectedMember;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::check::{CountedNote, Finding, NoteKind, Severity, StreamStatistics};
use cntk_reader_core::format::options::Format;
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::stream::{Storage, StreamInfo};
use cntk_reader_text::ctf::TextOptions;

/// A declared dimension is suspicious if it is this many times the dimension that the data need.
const FAR_LARGER: u64 = 10;

/// Declared dimensions below this are not suspicious.
const LEAST_DIM: u64 = 100;

/// The greatest dimension of a sparse stream, used if the dimension is not known.
const ANY_DIM: u64 = i32::MAX as u64;

/// Returns the notes about a deserializer that was checked completely.
pub(super) fn of_member(
    options: Option<&dyn Format>,
    member: &InspectedMember,
    statistics: &[StreamStatistics],
    counted: &[CountedNote],
    is_joined: bool,
) -> Vec<Finding> {
    let is_underflow = |note: &&CountedNote| note.kind == NoteKind::Underflow;
    let mut notes: Vec<Finding> = counted.iter().filter(is_underflow).map(of_underflow).collect();
    notes.extend(of_fewer_samples(member, counted));
    let has_indices = options.is_some_and(|options| options.facts().has_written_indices);
    for (info, seen) in member.streams().iter().zip(statistics).filter(|_| has_indices) {
        let of_stream = of_stream(info, seen).map(|(message, detail)| {
            let mut note = Finding::new(Severity::Note, message).in_file(member.name());
            note.detail = detail.to_owned();
            note.location.stream = Some(info.name.clone());
            note
        });
        notes.extend(of_stream);
    }
    if let Some(text) = options.and_then(|options| options.of::<TextOptions>()) {
        notes.extend(of_ids(text, member, is_joined));
    }
    if member.opened().is_some() && member.lengths().sequences() == 0 {
        let mut note = Finding::new(Severity::Note, "There are no sequences, so nothing can be read.");
        "Check how the file was written.".clone_into(&mut note.detail);
        notes.push(note.in_file(member.name()));
    }
    notes
}

/// Returns a note if a file that is read as text has another format.
pub(super) fn of_format(options: Option<&dyn Format>) -> Option<Finding> {
    let text = options?.of::<TextOptions>()?;
    let path = text.files.paths().ok()?.into_iter().next()?;
    let (cause, remedy) = FileFormat::explain(&DataFile::open(&path).ok()?, FileFormat::is_ctf)?;
    Some(Finding::new(Severity::Note, cause).with_detail(remedy).in_file(&path))
}

/// Returns the note about numbers that become 0.
fn of_underflow(note: &CountedNote) -> Finding {
    let message = format!("{} numbers are so small that they become 0; the first is here.", note.count);
    let detail = "Write 0, scale the values, or read them with ‹double_precision›.";
    Finding::new(Severity::Note, message).with_detail(detail).located(note.first.clone())
}

/// Returns one note about all streams that have fewer samples than their sequences have lines.
fn of_fewer_samples(member: &InspectedMember, counted: &[CountedNote]) -> Option<Finding> {
    let notes: Vec<_> = counted.iter().filter(|note| note.kind == NoteKind::FewerSamples).collect();
    let sequences =
        |count: u64| if count == 1 { "1 sequence".to_owned() } else { format!("{count} sequences") };
    let of_stream = |note: &&CountedNote| {
        let name = member.streams().get(note.stream).map_or("", |info| info.name.as_str());
        (name, note.count)
    };
    let message = match &notes[..] {
        [] => return None,
        [note] => {
            let (name, count) = of_stream(note);
            format!("In {} '{name}' has fewer samples than the sequence has lines", sequences(count))
        }
        _ => {
            let list = notes.iter().map(of_stream);
            let list: Vec<String> =
                list.map(|(name, count)| format!("'{name}' in {}", sequences(count))).collect();
            format!("Streams have fewer samples than a sequence has lines: {}", list.join(", "))
        }
    };
    let detail = "That is right for one label for a whole sequence, or for streams with lengths of their own. If each line is to have its \
                  sample, add the missing ones: they are not filled up, and later samples move up.";
    let mut first = notes.iter().min_by_key(|note| note.first.offset)?.first.clone();
    if notes.len() > 1 {
        first.stream = None;
    }
    let message = message + "; the first is here.";
    Some(Finding::new(Severity::Note, message).with_detail(detail).located(first))
}

/// Returns a suspicious property that all samples of a stream share, and its fix.
fn of_stream(info: &StreamInfo, seen: &StreamStatistics) -> Option<(String, &'static str)> {
    let name = &info.name;
    let size = info.classes.unwrap_or(info.sample_size());
    let dim = (!info.has_late_shape()).then_some(size as u64).filter(|&dim| dim != ANY_DIM);
    if dim == Some(0) {
        let message = format!("The dimension of '{name}' is 0, so its samples have no values.");
        return Some((message, "Set ‹dim› to the number of values, or of classes."));
    }
    let fits = seen.samples > 0 && seen.longer == 0;
    // Ids are dense streams, but sparse in the file.
    if info.storage == Storage::Dense && info.classes.is_none() {
        let is_empty = fits && seen.dim == 0 && seen.shorter == seen.samples;
        return is_empty.then(|| {
            let message = format!("No sample of '{name}' has a value: all are zeros.");
            (message, "Write values after the name of the stream, or leave the stream out.")
        });
    }
    if fits && seen.values == 0 {
        let message = format!("No sample of '{name}' has an entry: all are zeros.");
        return Some((
            message,
            "Write 'index:value' pairs after the name of the stream, or leave the stream out.",
        ));
    }
    let least = seen.least_index?;
    let greatest = seen.dim.saturating_sub(1);
    // There are enough values for each index from 1 on, and at least one index is not 1.
    if least == 1 && greatest > 1 && seen.values >= greatest {
        let message = format!("No sample of '{name}' has the index 0; the indices are 1 to {greatest}.");
        return Some((
            message,
            "Indices count from 0, and ‹dim› is one more than the largest. If the classes or words are numbered from 1, subtract 1 from \
             each; else nothing is wrong.",
        ));
    }
    let is_alike = least == greatest && seen.single == seen.samples && seen.samples > 2;
    if is_alike && seen.other_values > 0 && dim.is_none_or(|dim| dim > 1) {
        let message =
            format!("All samples of '{name}' have one entry, with the index {least} and several values.");
        return Some((
            message,
            "An entry is 'index:value': '3:1' says that class 3 is meant. Perhaps both are swapped.",
        ));
    }
    let is_large = |dim: &u64| *dim >= LEAST_DIM && *dim / FAR_LARGER >= seen.dim;
    dim.filter(|dim| fits && is_large(dim)).map(|dim| {
        let message =
            format!("The dimension of '{name}' is {dim}, but the largest index in the data is {greatest}.");
        (message, "If no other data need it, set ‹dim› to one more than the largest index: parameters grow with it.")
    })
}

/// Returns a note about ids that may be labels. `is_joined`: other deserializers have the other
/// streams of the sequences, so that a single stream does not suggest it.
fn of_ids(text: &TextOptions, member: &InspectedMember, is_joined: bool) -> Option<Finding> {
    let lengths = member.lengths();
    let (sequences, samples) = (lengths.sequences(), lengths.samples());
    let path = text.files.paths().ok().filter(|paths| paths.len() == 1)?.swap_remove(0);
    let has_ids = !text.skip_sequence_ids && FileFormat::of_file(&path).ok()? == FileFormat::CtfIds;
    if !has_ids || samples <= sequences {
        return None;
    }
    let is_alone = !is_joined && member.streams().len() == 1 && member.streams()[0].storage != Storage::Dense;
    let (message, detail) = match (sequences, is_alone) {
        (1, _) => (
            format!("All {samples} lines have one id: they are one sequence."),
            "If each line is a sequence, leave the ids out or set ‹skip_sequence_ids = true›; else number the sequences. A label in \
             front of the line, as in Vowpal Wabbit's format, is an id here: write it as a sample, '|label 3:1'.",
        ),
        (_, true) => (
            format!(
                "The lines have ids, and samples of one stream only: the {samples} lines are {sequences} sequences."
            ),
            "If the numbers in front are labels, as in Vowpal Wabbit's format, write them as samples, '|label 3:1'; else nothing is \
             wrong.",
        ),
        _ => return None,
    };
    Some(Finding::new(Severity::Note, message).with_detail(detail).in_file(&path))
}
