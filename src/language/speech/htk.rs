//! The keys of the speech deserializers: HTK features, labels (MLF) as text and binary, lattices.
//!
//! CNTK starts the lookup of each key in one of three sections: the stream's, the enclosing
//! `input`, or the deserializer's. The order of the reads is CNTK's: it decides which of several
//! mistakes is reported.

use super::{Common, SpeechType};
use crate::language::composite::read_level;
use crate::language::element;
use crate::language::options::{HtkFeatureOptions, LatticeOptions, MlfOptions, Quirks};
use crate::language::section::Section;
use crate::language::text;
use cntk_reader_core::error::ExceptionClass::{InvalidArgument, Logic, Runtime};
use cntk_reader_core::file::{Confinement, DataFile, address};
use cntk_reader_core::format::options::Format;
use cntk_reader_core::limits::MAX_LABEL_CLASSES;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::signed;
use cntk_reader_core::option;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::{Error, ErrorKind, Result};

/// Bytes of a chunk of labels or lattices unless `chunkSizeInBytes` is set.
const DEFAULT_CHUNK_SIZE: u64 = 64 << 20;

impl SpeechType {
    /// Fails for labels and lattices, which need the utterances of another deserializer.
    fn check_primary(self) -> Result<()> {
        let error = match self {
            SpeechType::Features => return Ok(()),
            SpeechType::Labels | SpeechType::BinaryLabels => {
                Error::config(Runtime, "MLFDeserializer currently does not support primary mode.").as_cntk()
            }
            SpeechType::Lattices => Error::config(
                Logic,
                "Lattice deserializer does not support primary mode, it cannot control chunking. Please specify \
                 HTK deserializer as the first deserializer in your config file.",
            ).as_cntk(),
        };
        let found =
            "The first deserializer has labels or lattices, which do not determine the order of the data.";
        Err(error.with_detail(found).with_detail("Put a deserializer of features before it."))
    }
}

/// Reads an element of `deserializers`.
pub fn read(kind: SpeechType, section: &Section, common: &Common) -> Result<Box<dyn Format>> {
    if common.is_primary {
        kind.check_primary()?;
    }
    read_stream(kind, section, || SpeechStream::first_of(section), common)
}

/// Reads a deserializer of this kind: first the keys of the deserializer's section, then the
/// stream's keys.
pub(super) fn read_stream(
    kind: SpeechType,
    section: &Section,
    stream: impl FnOnce() -> Result<SpeechStream>,
    common: &Common,
) -> Result<Box<dyn Format>> {
    Ok(match kind {
        SpeechType::Features => {
            let verbosity = read_level(section, "verbosity")?;
            let features = read_features(&stream()?, common)?;
            Box::new(HtkFeatureOptions { verbosity, ..features })
        }
        SpeechType::Labels | SpeechType::BinaryLabels => {
            let chunk_size = read_chunk_size(section)?;
            let labels = read_labels(&stream()?, kind == SpeechType::BinaryLabels, common)?;
            Box::new(MlfOptions { chunk_size, ..labels })
        }
        SpeechType::Lattices => {
            let verbosity = read_level(section, "verbosity")?;
            let chunk_size = read_chunk_size(section)?;
            let SpeechStream { name, stream, .. } = stream()?;
            Box::new(LatticeOptions {
                stream: name,
                index_file: stream.path_of("latticeIndexFile")?,
                cache_index: read_cache_index(&stream, common)?,
                chunk_size,
                verbosity,
                confinement: Confinement::default(),
            })
        }
    })
}

/// The single stream of a speech deserializer, with the sections in which its keys are looked up.
pub(super) struct SpeechStream {
    pub name: String,
    /// The section of the stream.
    pub stream: Section,
    /// Where `maxSequenceSize` and `definesMBSize` are looked up: `input`, or the stream's section
    /// in legacy configurations.
    pub sizes: Section,
}

impl SpeechStream {
    /// Returns the stream of an element of `deserializers`: the first one of `input`. CNTK ignores
    /// the others.
    pub fn first_of(deserializer: &Section) -> Result<SpeechStream> {
        let input = deserializer.section("input")?;
        let Some(name) = input.keys().next().map(str::to_owned) else {
            let message = format!("The section {} describes no stream.", input.place());
            let detail = "It needs a line for the stream to read: 'name = [ ... ]'.";
            return Err(input.blame_whole(Error::config(InvalidArgument, message).with_detail(detail)));
        };
        let stream = input.section(&name)?;
        Ok(SpeechStream { name, stream, sizes: input })
    }
}

/// Reads `chunkSizeInBytes` of labels and lattices.
fn read_chunk_size(section: &Section) -> Result<u64> {
    let size = section.get_or("chunkSizeInBytes", DEFAULT_CHUNK_SIZE)?;
    if size == 0 {
        let message = format!("‹chunk_size› in {} must not be 0.", section.bare());
        let detail = format!("It is the size of a chunk in bytes; the default is {DEFAULT_CHUNK_SIZE}.");
        let error = Error::config(InvalidArgument, message).with_detail(detail);
        return Err(section.blame("chunkSizeInBytes", error));
    }
    Ok(size)
}

/// Reads the keys of a stream of features.
fn read_features(of: &SpeechStream, common: &Common) -> Result<HtkFeatureOptions> {
    let SpeechStream { name, stream, sizes } = of;
    let context = read_context(stream)?;
    let expand = read_expand(stream, name, common.is_primary)?;
    let dim = read_dim(
        stream,
        &["dim"],
        "Features must specify dimension: 'dim' property is missing.",
        "the number of values in a frame",
    )?;
    check_dim(stream, dim, context)?;
    let max_sequence_size = read_max_sequence_size(sizes)?;
    let scp_files = read_paths(stream, "scpFile")?;
    let prefix = stream.path_or_none("prefixPathInSCP")?.unwrap_or_default();
    let defines_mb_size = sizes.get_or("definesMBSize", false)?;
    Ok(HtkFeatureOptions {
        stream: name.clone(),
        scp_files,
        dim,
        context,
        prefix,
        expand,
        max_sequence_size,
        defines_mb_size,
        verbosity: 0,
        element: common.element,
        frame_mode: common.frame_mode,
        confinement: Confinement::default(),
        quirks: Quirks::default(),
    })
}

/// Reads the keys of a stream of labels.
fn read_labels(of: &SpeechStream, binary: bool, common: &Common) -> Result<MlfOptions> {
    let SpeechStream { name, stream, .. } = of;
    let dim = read_dim(
        stream,
        &["labelDim", "dim"],
        "Labels must specify dimension: 'dim/labelDim' property is missing.",
        "the number of classes",
    )?;
    if dim > MAX_LABEL_CLASSES {
        let message =
            format!("Label dimension ({dim}) exceeds the maximum allowed value '{MAX_LABEL_CLASSES}d'\n");
        let detail = format!(
            "The number of classes, ‹classes› in {}, is {}. Expected at most {MAX_LABEL_CLASSES}.",
            stream.place(),
            signed(dim)
        );
        let error = Error::config(Runtime, message).as_cntk().with_detail(detail).in_stream(name);
        return Err(stream.blame(if stream.exists("labelDim") { "labelDim" } else { "dim" }, error));
    }
    let phone_boundaries = stream.parsed_or("phoneBoundaries", false)?;
    if phone_boundaries && common.frame_mode && !common.boundaries_of_frames {
        let message = "frameMode and phoneBoundaries are mutually exclusive options.";
        let detail = "Both are true; set one of them to false.";
        let error = Error::config(Logic, message).with_detail(detail).in_stream(name);
        return Err(stream.blame("phoneBoundaries", error));
    }
    if phone_boundaries && binary {
        let message = "TODO: implement phoneBoundaries setting in Binary MLF deserializer.";
        let detail = "Binary labels do not say where phones begin; remove ‹phone_boundaries›.";
        let error = Error::config(Logic, message).as_cntk().with_detail(detail).in_stream(name);
        return Err(stream.blame("phoneBoundaries", error));
    }
    let ids = element::read_ids(stream, name)?;
    let (files, list) = read_label_files(stream)?;
    let state_list = if binary {
        stream.ignore(&["labelMappingFile"]);
        None
    } else {
        stream.path_or_none("labelMappingFile")?
    };
    Ok(MlfOptions {
        front_end: FrontEnd::default(),
        stream: name.clone(),
        files,
        list,
        state_list,
        dim,
        phone_boundaries,
        ids,
        cache_index: read_cache_index(stream, common)?,
        chunk_size: DEFAULT_CHUNK_SIZE,
        binary,
        element: common.element,
        frame_mode: common.frame_mode,
        confinement: Confinement::default(),
        quirks: Quirks::default(),
    })
}

/// Reads `cacheIndex`, which is used, and converted, only if keys are hashed.
fn read_cache_index(stream: &Section, common: &Common) -> Result<bool> {
    if common.hash_keys { stream.get_or("cacheIndex", false) } else { Ok(false) }
}

/// Reads `expandToUtterance`. The first stream has nothing to expand to.
pub(super) fn read_expand(stream: &Section, name: &str, is_primary: bool) -> Result<bool> {
    let expand = stream.get_or("expandToUtterance", false)?;
    if expand && is_primary {
        let message = format!(
            "Cannot expand utterances of the primary stream {name}, please change your configuration."
        );
        let detail =
            "Its frame is repeated for each sample of the first deserializer: put another one first.";
        let error = Error::config(InvalidArgument, message).with_detail(detail).in_stream(name);
        return Err(stream.blame("expandToUtterance", error));
    }
    Ok(expand)
}

/// Reads `contextWindow`: neighbouring frames before and after. A single number is the size of the
/// whole window.
pub(super) fn read_context(stream: &Section) -> Result<(u32, u32)> {
    let key = "contextWindow";
    let values = stream.typed_array_or(key, "1")?.values::<i32>()?;
    let sides = match *values.as_slice() {
        [whole] if whole < 0 && whole % 2 != 0 => Ok((whole, whole)),
        [whole] if whole % 2 != 0 => Ok((whole / 2, whole / 2)),
        [whole] => Err(format!("Neighbor expansion of input features to {whole} is not symmetrical.")),
        [left, right] => Ok((left, right)),
        _ => Err(format!("contextWindow must have 1 or 2 values specified, found {}.", values.len())),
    };
    let fail = |message: String| {
        let error = Error::config(InvalidArgument, message).with_detail(format!(
            "{} in {} is the odd number of frames of a sample, or two numbers, 'before:after', of its \
             neighbours.",
            option::of_key(key),
            stream.place()
        ));
        Err(stream.blame(key, error))
    };
    match sides {
        Ok((left, right)) => match (u32::try_from(left), u32::try_from(right)) {
            (Ok(left), Ok(right)) => Ok((left, right)),
            _ => fail(format!("contextWindow must not be negative, found {left}:{right}.")),
        },
        Err(message) => fail(message),
    }
}

/// Reads the first of `keys` that exists.
pub(super) fn read_dim(stream: &Section, keys: &[&str], missing: &str, meaning: &str) -> Result<u64> {
    match keys.iter().find(|key| stream.exists(key)) {
        Some(key) => {
            let dim = stream.required::<u64>(key)?;
            text::refuse_zero(stream, key, dim)?;
            Ok(dim)
        }
        None => {
            let option = option::of_key(keys[0]);
            let error = Error::config(InvalidArgument, missing)
                .as_cntk()
                .with_detail(format!("{} has no {option}.", stream.subject()))
                .with_detail(format!("Set {option} to {meaning}."));
            Err(stream.blame_missing(keys[0], error))
        }
    }
}

/// Refuses samples that exceed the address space.
pub(super) fn check_dim(stream: &Section, dim: u64, (left, right): (u32, u32)) -> Result<()> {
    let values = dim.checked_mul(1 + u64::from(left) + u64::from(right));
    if values.is_some_and(|values| values <= isize::MAX as u64 / 8) {
        return Ok(());
    }
    let message = format!("The samples of {} are too large.", stream.place());
    let detail = format!(
        "‹dim› is {}, with {left} frames before and {right} after: one sample would not fit into the address space.",
        signed(dim)
    );
    Err(stream.blame("dim", Error::config(Runtime, message).with_detail(detail)))
}

/// Reads one path, or several as an array in brackets. CNTK 2.7 takes an array for a file name.
fn read_paths(stream: &Section, key: &str) -> Result<Vec<String>> {
    if !stream.finds_list(key) {
        let text = stream.text(key)?;
        if stream.finds_literal(key) || !text.starts_with(['(', '[', '{']) {
            return Ok(vec![address::named(text)]);
        }
    }
    let paths = stream.array(key)?.paths();
    if paths.is_empty() {
        let message = format!("'{key}' in {} names no file.", stream.place());
        let error = Error::config(InvalidArgument, message).with_detail("Write the path of a file.");
        return Err(stream.blame(key, error));
    }
    Ok(paths)
}

/// Reads `maxSequenceSize`, capped at 32 bits, the limit for the frames of an utterance.
pub(super) fn read_max_sequence_size(sizes: &Section) -> Result<u32> {
    let size = sizes.get_or("maxSequenceSize", u64::MAX)?;
    Ok(u32::try_from(size).unwrap_or(u32::MAX))
}

/// Reads `mlfFile`, or `mlfFileList`: an array of paths, or the path of a file with one path per
/// line. Both are only read from the section of the stream itself.
fn read_label_files(stream: &Section) -> Result<(Vec<String>, Option<String>)> {
    if stream.exists_here("mlfFile") {
        stream.ignore(&["mlfFileList"]);
        return Ok((vec![stream.path_of("mlfFile")?], None));
    }
    if !stream.exists_here("mlfFileList") {
        let message = "Either mlfFile or mlfFileList must exist in the reader configuration.";
        let detail = format!("{} has neither 'mlfFile' nor 'mlfFileList'.", stream.subject());
        let error = Error::config(InvalidArgument, message).as_cntk().with_detail(detail);
        return Err(stream.blame_missing("mlfFile", error));
    }
    if stream.finds_list("mlfFileList") {
        return Ok((stream.array("mlfFileList")?.paths(), None));
    }
    let list = stream.text("mlfFileList")?;
    if list.contains(':') {
        return Ok((stream.array("mlfFileList")?.paths(), None));
    }
    let file = DataFile::open_text_or(&list, |cause| {
        let reason = cause.to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default();
        // CNTK's message.
        let message = format!("auto_file_ptr: error opening file '{list}': {reason}");
        let found = format!("The list '{list}' of label files cannot be opened: {reason}.");
        let error = Error::new(ErrorKind::Io, Runtime, message).as_cntk().with_detail(found);
        let error = error.with_detail(format!(
            "'mlfFileList' in {} is the path of a file with one path in each line; several paths may be given there as \
             an array, '(a.mlf:b.mlf)', and a single one as 'mlfFile'.",
            stream.place()
        ));
        stream.blame("mlfFileList", error)
    })?;
    let text = String::from_utf8(file.read_text(room::FILE)?).map_err(|error| {
        let (bytes, at) = (error.as_bytes(), error.utf8_error().valid_up_to());
        let line = bytes[..at].split(|&byte| byte == b'\n').count() as u64;
        Error::data(format!("The list '{list}' of label files is not UTF-8 text."))
            .with_detail("Save it as UTF-8: one path in each line.")
            .in_file(&list)
            .at(file.text_start() + at as u64, Some(line))
    })?;
    Ok((text.lines().map(str::to_owned).collect(), Some(list)))
}
