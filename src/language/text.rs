//! The keys of the text (CTF) deserializer: its file and streams, and the keys shared by both kinds
//! of readers.

use super::composite::{AUTO_WINDOW, read_level};
use super::convert::WidenedInt;
use super::element;
use super::options::{Quirks, TextOptions, TextStream, WindowSize};
use super::section::Section;
use cntk_reader_core::error::ExceptionClass::{InvalidArgument, Runtime};
use cntk_reader_core::limits::LARGEST_SPARSE_DIM;
use cntk_reader_core::message::shown::signed;
use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::option;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::stream::{ElementType, Ids, Storage};
use cntk_reader_core::{Error, Result};
use std::collections::HashMap;

/// Bytes of a chunk unless `chunkSizeInBytes` is set.
pub(super) const DEFAULT_CHUNK_SIZE: u64 = 32 << 20;

/// The window covers chunks of this total size unless `randomizationWindow` is set.
const DEFAULT_WINDOW_BYTES: u64 = 4 << 30;

/// The contents of the section of a text deserializer or text reader.
pub(super) struct TextSection {
    pub options: TextOptions,
    /// `frameMode`; composite readers decide themselves.
    pub frame_mode: bool,
    /// `randomize` and the window; composite readers have their own. None means the data's own
    /// order.
    pub window: Option<WindowSize>,
}

/// Reads the section. The order of the reads is CNTK's: it decides which of several mistakes is
/// reported.
pub(super) fn read(section: &Section, element: ElementType) -> Result<TextSection> {
    if !section.exists_here("input") {
        let message = "CNTKTextFormatReader configuration does not contain \"input\" section.";
        let error = Error::config(Runtime, message).as_cntk().with_detail(needs_streams(section));
        return Err(section.blame_missing("input", error));
    }
    let input = section.section("input")?;
    if input.is_empty() {
        let message = "CNTKTextFormatReader configuration contains an empty \"input\" section.";
        let error = Error::config(Runtime, message).as_cntk().with_detail(needs_streams(section));
        return Err(section.blame("input", error));
    }
    let streams = read_streams(&input, element)?;
    let files = section.files("file")?;
    let skip_sequence_ids = section.get_or("skipSequenceIds", false)?;
    let max_errors = read_u32(section, "maxErrors", 0)?;
    let trace_level = read_trace_level(section)?;
    let chunk_size = read_chunk_size(section, "‹chunk_size›")?;
    let keep_data_in_memory = section.get_or("keepDataInMemory", false)?;
    let frame_mode = section.get_or("frameMode", false)?;
    let cache_index = section.get_or("cacheIndex", false)?;
    let strict_sequences = section.get_or("strictSequences", true)?;
    let shared_ids = section.get_or("sharedIds", false)?;
    let window = read_window(section, chunk_size)?;
    check_one_defines_size(&streams, &input)?;
    let options = TextOptions {
        files,
        shared_ids,
        streams,
        skip_sequence_ids,
        max_errors,
        log: Logger::new(trace_level),
        chunk_size,
        cache_index,
        keep_data_in_memory,
        element,
        strict_sequences,
        quirks: Quirks::default(),
    };
    Ok(TextSection { options, frame_mode, window })
}

fn needs_streams(section: &Section) -> String {
    format!("{} needs the streams to read: ‹streams›.", section.subject())
}

/// Reads `chunkSizeInBytes`, called `name` in messages. CNTK divides by it, and crashes if it is 0.
pub(super) fn read_chunk_size(section: &Section, name: &str) -> Result<u64> {
    match section.get_or("chunkSizeInBytes", DEFAULT_CHUNK_SIZE)? {
        0 => {
            let message = format!("{name} in {} must not be 0.", section.bare());
            let detail = format!("It is the size of a chunk in bytes; the default is {DEFAULT_CHUNK_SIZE}.");
            let error = Error::config(InvalidArgument, message).with_detail(detail);
            Err(section.blame("chunkSizeInBytes", error))
        }
        size => Ok(size),
    }
}

/// Returns the automatic window for chunks of this size; 0 if they exceed 4 GB.
pub(super) fn automatic_window(chunk_size: u64) -> u64 {
    DEFAULT_WINDOW_BYTES / chunk_size
}

/// Converts a window for the randomizer. CNTK keeps the low 32 bits of a window in chunks and
/// crashes if they are all zero, in which case this library takes all chunks. A window of 0 chunks
/// becomes 1 chunk.
pub(super) fn window_size(window: u64, in_samples: bool) -> WindowSize {
    if in_samples {
        return WindowSize::Samples(window);
    }
    let all = u64::from(u32::MAX);
    match (window, window & all) {
        (0, _) => WindowSize::Chunks(1),
        (_, 0) => WindowSize::Chunks(all),
        (_, low) => WindowSize::Chunks(low),
    }
}

/// Reads an integer that CNTK widens to a size and then cuts to 32 bits: -1 is the greatest.
pub(super) fn read_u32(section: &Section, key: &str, default: u64) -> Result<u32> {
    let value = section.get_or(key, WidenedInt(default))?;
    Ok((value.0 & u64::from(u32::MAX)) as u32)
}

/// Reads `traceLevel`. A higher `verbosity` raises it, except in CNTK's place, where the two apply
/// to different parts of a reader.
pub(super) fn read_trace_level(section: &Section) -> Result<u32> {
    let level = read_u32(section, "traceLevel", 1)?;
    if !section.is_native() {
        return Ok(level);
    }
    Ok(level.max(read_level(section, "verbosity")?.cast_unsigned()))
}

pub(super) fn read_window(section: &Section, chunk_size: u64) -> Result<Option<WindowSize>> {
    let none = section.get_or("randomize", String::from("true"))?.eq_ignore_ascii_case("none");
    let randomize = !none && section.get_or("randomize", true)?;
    let given = if randomize && section.exists("randomizationWindow") {
        Some(section.required::<u64>("randomizationWindow")?)
    } else {
        section.ignore(&["randomizationWindow"]);
        None
    };
    let in_samples = section.get_or("sampleBasedRandomizationWindow", false)?;
    let automatic = if in_samples { AUTO_WINDOW } else { automatic_window(chunk_size) };
    let window = given.unwrap_or(automatic);
    Ok((randomize && window != 0).then(|| window_size(window, in_samples)))
}

fn read_streams(input: &Section, precision: ElementType) -> Result<Vec<TextStream>> {
    let mut streams = Vec::new();
    let mut names_by_alias = HashMap::<String, String>::new();
    for name in input.keys() {
        let stream = read_stream(&input.child(name)?, name, precision)?;
        if let Some(other) = names_by_alias.get(&stream.alias) {
            let message = format!("Alias {} is already mapped to input {other}.", stream.alias);
            let found =
                format!("The streams '{other}' and '{name}' both read the samples '|{}'.", stream.alias);
            let detail = "Give each its own ‹alias›, the name of its samples in the file.";
            let error = Error::config(Runtime, message).as_cntk().with_detail(found).with_detail(detail);
            let error = error.in_stream(name);
            let stream = input.child(name)?;
            return Err(if stream.exists_here("alias") {
                stream.blame("alias", error)
            } else {
                input.blame(name, error)
            });
        }
        names_by_alias.insert(stream.alias.clone(), stream.name.clone());
        streams.push(stream);
    }
    Ok(streams)
}

fn read_stream(section: &Section, name: &str, precision: ElementType) -> Result<TextStream> {
    let fail = |key: &str, message: String, detail: String| {
        let error = Error::config(Runtime, message).as_cntk().with_detail(detail).in_stream(name);
        Err(section.blame(key, error))
    };
    // Not inherited from enclosing sections: a stream without them is a mistake.
    if !(section.exists_here("dim") & section.exists_here("format")) {
        let message = format!(
            "Input section for input '{name}' does not specify all the required parameters, \"dim\" and \"format\"."
        );
        let missing = if section.exists_here("dim") { "format" } else { "dim" };
        let detail = format!("'{missing}' is missing in {}.", section.place());
        let error = Error::config(Runtime, message).as_cntk().with_detail(detail).in_stream(name);
        return Err(section.blame_missing(missing, error));
    }
    let dim = section.required::<u64>("dim")?;
    let defines_mb_size = section.get_or("definesMBSize", false)?;
    let format = section.text("format")?;
    let storage = if format.eq_ignore_ascii_case("dense") {
        Storage::Dense
    } else if format.eq_ignore_ascii_case("sparse") {
        Storage::SparseCsc
    } else {
        let message = "'format' parameter must be set either to 'dense' or 'sparse'.";
        let known = ["dense", "sparse"].into_iter().collect();
        let meant = nearest(&format.to_ascii_lowercase(), &known);
        let meant = meant.map_or_else(String::new, |meant| format!(" Did you mean '{meant}'?"));
        let detail = format!(
            "The value of {} is '{format}'. Expected 'dense' or 'sparse'.{meant}",
            option::at(section.path(), "format")
        );
        return fail("format", message.to_owned(), detail);
    };
    if storage == Storage::SparseCsc && dim > LARGEST_SPARSE_DIM {
        let message = format!(
            "Sample dimension ({dim}) for sparse input '{name}' exceeds the maximum allowed value ({LARGEST_SPARSE_DIM}).\n"
        );
        return fail(
            "dim",
            message,
            format!(
                "The value of {} is {}. Expected the number of possible indices, at most {LARGEST_SPARSE_DIM}.",
                option::at(section.path(), "dim"),
                signed(dim)
            ),
        );
    }
    check_dim(name, dim).map_err(|error| section.blame("dim", error))?;
    refuse_zero(section, "dim", dim)?;
    let alias = if section.exists_here("alias") { section.text("alias")? } else { name.to_owned() };
    let (element, ids) = read_element(section, name, storage, precision)?;
    Ok(TextStream { name: name.to_owned(), alias, dim, storage, defines_mb_size, element, ids })
}

/// Reads `element`, the type of a stream's values, and `ids`, which delivers class ids instead of
/// sparse samples.
fn read_element(
    section: &Section,
    name: &str,
    storage: Storage,
    precision: ElementType,
) -> Result<(Option<ElementType>, Option<Ids>)> {
    let is_sparse = storage == Storage::SparseCsc;
    let element = element::read(section, "element", name, ElementType::ALL)?;
    let ids = element::read_ids(section, name)?;
    let refuse = |key: &str, message: String, detail: &str| {
        let error = Error::config(InvalidArgument, message).with_detail(detail).in_stream(name);
        Err(section.blame(key, error))
    };
    match (element, ids) {
        (Some(_), Some(_)) => refuse(
            "element",
            format!("The stream '{name}' has both ‹element› and ‹ids›."),
            "‹ids› is the type of its values: leave ‹element› out.",
        ),
        (_, Some(_)) if !is_sparse => refuse(
            "ids",
            format!("The stream '{name}' has ‹ids› but is not sparse."),
            "Ids are the indices of samples 'index:1': set ‹sparse›. Numbers in a dense stream are read with ‹element›.",
        ),
        (Some(element), _) if is_sparse && element != precision => refuse(
            "element",
            format!("The values of the sparse stream '{name}' cannot be {}.", element.name()),
            "Sparse streams have values of the reader's ‹precision›. For the indices of samples 'index:1' set ‹ids›.",
        ),
        (element, ids) => Ok((element, ids)),
    }
}

const DIM_EXPECTED: &str = "Expected the number of values of a sample, at least 1.";

/// Refuses samples without values, which CNTK accepts if there are none to read.
pub(super) fn refuse_zero(section: &Section, key: &str, dim: u64) -> Result<()> {
    if dim != 0 || !section.is_native() {
        return Ok(());
    }
    let message = format!("The value of {} in {} is 0.", option::of_key(key), section.place());
    let error = Error::config(InvalidArgument, message).with_detail(DIM_EXPECTED);
    Err(section.blame(key, error))
}

/// Refuses dimensions that are not sizes: CNTK's markers for inferred and free dimensions, and
/// samples that exceed the address space.
fn check_dim(name: &str, dim: u64) -> Result<()> {
    let mark = match dim {
        u64::MAX => "?",
        0xffff_ffff_ffff_fffd => "*",
        // At eight bytes a value, the sample must still fit into `isize`.
        _ if dim <= isize::MAX as u64 / 8 => return Ok(()),
        _ => {
            let message = format!("Sample dimension ({dim}) for input '{name}' is too large.");
            let detail = format!("‹dim› of the stream '{name}' is {}.", signed(dim));
            let error = Error::config(Runtime, message).as_cntk().with_detail(detail);
            return Err(error.with_detail(DIM_EXPECTED).in_stream(name));
        }
    };
    let message = format!(
        "NDShape::TotalSize: TotalSize cannot be determined for a NDShape '[{mark}]' with one or more dimensions being InferredDimension or FreeDimension."
    );
    let detail = format!("‹dim› of the stream '{name}' is {}.", signed(dim));
    Err(Error::config(Runtime, message)
        .as_cntk()
        .with_detail(detail)
        .with_detail(DIM_EXPECTED)
        .in_stream(name))
}

fn check_one_defines_size(streams: &[TextStream], input: &Section) -> Result<()> {
    let defining: Vec<&str> = streams.iter().filter(|s| s.defines_mb_size).map(|s| s.name.as_str()).collect();
    let [_, second, ..] = defining.as_slice() else { return Ok(()) };
    let message = format!(
        "Only a single stream is allowed to define the minibatch size, but {} found: {}.",
        defining.len(),
        defining.join(", ")
    );
    let error =
        Error::config(Runtime, message).with_detail("Set ‹defines_minibatch_size = true› in one stream.");
    Err(input.child(second)?.blame("definesMBSize", error))
}
