//! Readers chosen by `readerType = "HTKMLFReader"` or `"HTKDeserializers"`: each stream has its own
//! section in the reader's section, and missing keys are looked up in all enclosing sections.

use super::htk::{self, SpeechStream};
use super::{Common, SpeechType};
use crate::language::composite::{AUTO_WINDOW, read_common, read_level};
use crate::language::convert::{FromValue, WidenedInt};
use crate::language::options::{Order, Packing, ReaderSettings, Shape, WindowSize};
use crate::language::section::Section;
use crate::language::text;
use cntk_reader_core::error::ExceptionClass::{InvalidArgument, Logic, Runtime};
use cntk_reader_core::format::options::Format;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};

/// Keys that CNTK 2.7 accepts here and ignores.
const WITHOUT_EFFECT: [&str; 7] = [
    "minibatchMode",
    "useMersenneTwisterRand",
    "pageFilePath",
    "unigram",
    "maxUtteranceLength",
    "randomizationSeed",
    "multiThreadedDeserialization",
];

/// CNTK's notice about truncated minibatches without a truncation length.
const OLD_TRUNCATION: &str = "Legacy configuration is used for truncated BPTT mode, please adapt the config to \
                              explicitly specify truncationLength.";

/// Reads the settings of the section of a legacy speech reader.
pub(super) fn read(section: &Section, element: ElementType) -> Result<ReaderSettings> {
    section.ignore(&WITHOUT_EFFECT);
    let prefetch = read_common(section)?;
    let frame_mode = section.get_or("frameMode", true)?;
    let (packing, lanes_by_epoch) = read_packing(section, frame_mode)?;
    let numeric_keys = section.get_or("useNumericSequenceKeys", false)?;
    let window = read_window(section)?;
    let streams = find_streams(section)?;
    let deserializers = read_deserializers(section, &streams, element, frame_mode)?;
    let verbosity = read_level(section, "verbosity")?;
    section.get_or("checkData", true)?;
    let order = read_order(section, window)?;
    let trace_level = text::read_trace_level(section)?;
    if lanes_by_epoch.is_some() {
        Logger::new(trace_level).write(Level::Warning, OLD_TRUNCATION);
    }
    Ok(ReaderSettings {
        shape: Shape::HtkReader,
        deserializers,
        adapters: Vec::new(),
        numeric_keys,
        hash_keys: false,
        order,
        packing,
        expand_sparse: true,
        lanes_by_epoch,
        local_timeline: false,
        lockstep: false,
        max_errors: 0,
        element,
        trace_level,
        verbosity,
        multithreaded: false,
        prefetch,
        front_end: FrontEnd::default(),
        in_place_of: None,
        packing_key: section.written("truncated"),
        descriptions: vec![section.written("scpFile")],
    })
}

/// Returns the names of the sections that describe features and labels, each in alphabetical order.
/// CNTK opens every key as a section to find out, so an empty value is an error in any key.
fn find_streams(section: &Section) -> Result<(Vec<String>, Vec<String>)> {
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    // Lookups here do not count as reads.
    let unlogged = section.unlogged();
    for name in unlogged.keys() {
        let stream = unlogged.section(name)?;
        let has = |key: &str| stream.exists_here(key);
        if has("scpFile") {
            features.push(name.to_owned());
        } else if has("mlfFile") || has("mlfFileList") {
            labels.push(name.to_owned());
        } else if has("phoneFile") || has("denlatTocFile") {
            // Models and lattices of older readers.
            section.ignore(&[name]);
        }
    }
    if features.is_empty() {
        let message = "Network needs at least 1 feature specified.";
        let detail = format!("{} has no section with an 'scpFile'.", section.subject());
        let error = Error::config(InvalidArgument, message).as_cntk().with_detail(detail);
        return Err(section.blame_whole(error));
    }
    Ok((features, labels))
}

/// Reads how minibatches are packed. Without `truncationLength`, the minibatch size is the length
/// of truncated minibatches, and the returned numbers are the lanes of each epoch.
fn read_packing(section: &Section, frame_mode: bool) -> Result<(Packing, Option<Vec<u64>>)> {
    let truncated = section.get_or("truncated", false)?;
    if frame_mode && truncated {
        let error = Error::config(Logic, "frameMode and truncated BPTT are mutually exclusive.").as_cntk();
        let error = error.with_detail(format!(
            "'frameMode' is true in {} unless it says otherwise: set 'frameMode = false'.",
            section.place()
        ));
        return Err(section.blame("truncated", error));
    }
    let length = section.get_or("truncationLength", WidenedInt(0))?.0;
    if !truncated {
        return Ok((if frame_mode { Packing::Frame } else { Packing::Sequence }, None));
    }
    let packing = Packing::Truncated { length, right_splice: 0 };
    if length != 0 {
        return Ok((packing, None));
    }
    let lanes = section.typed_array_or("nbruttsineachrecurrentiter", "1")?.values::<i32>()?;
    let lanes = lanes.into_iter().map(u64::try_from).collect::<std::result::Result<Vec<_>, _>>();
    match lanes {
        Ok(lanes) if !lanes.is_empty() => Ok((packing, Some(lanes))),
        _ => {
            let message = format!(
                "'nbruttsineachrecurrentiter' in {} must be numbers of parallel sequences.",
                section.place()
            );
            let error = Error::config(InvalidArgument, message);
            let error = error.with_detail("They are at least 1, one for each epoch.");
            Err(section.blame("nbruttsineachrecurrentiter", error))
        }
    }
}

fn read_order(section: &Section, window: u64) -> Result<Order> {
    let method = section.text_or("readMethod", "blockRandomize")?;
    let refuse = |message: &str| {
        let detail = format!("In {} it is '{method}'.", section.place());
        section.blame("readMethod", Error::config(InvalidArgument, message).with_detail(detail))
    };
    // CNTK's two comparisons: one is case-sensitive and the other is not.
    if section.text_or("action", "")? == "write" && method != "none" {
        return Err(refuse("'readMethod' must be 'none' for write action."));
    }
    if method == "blockRandomize" && window == 0 {
        return Err(refuse("'randomize' cannot be 'none' when 'readMethod' is 'blockRandomize'."));
    }
    if method.eq_ignore_ascii_case("none") {
        Ok(Order::InOrder)
    } else if method.eq_ignore_ascii_case("blockRandomize") {
        let seed = section.get_or("randomizationSeed", 0)?;
        Ok(Order::Block { window: WindowSize::Samples(window), seed })
    } else {
        let detail = format!("In {} it is '{method}'.", section.place());
        let error = Error::config(Runtime, "readMethod must be 'blockRandomize' or 'none'.");
        Err(section.blame("readMethod", error.with_detail(detail)))
    }
}

/// Reads `randomize`: the window in samples, or a word for one.
fn read_window(section: &Section) -> Result<u64> {
    if !section.exists("randomize") {
        return Ok(AUTO_WINDOW);
    }
    let text = section.text("randomize")?;
    if text.eq_ignore_ascii_case("auto") {
        Ok(AUTO_WINDOW)
    } else if text.eq_ignore_ascii_case("none") {
        Ok(0)
    } else {
        u64::from_value(&text).map_err(|error| {
            let error = error.with_detail(format!(
                "'randomize' in {} is '{text}'. Expected 'auto', 'none' or the window in samples.",
                section.place()
            ));
            section.blame("randomize", error)
        })
    }
}

/// Features come before labels, and the first one is primary.
fn read_deserializers(
    section: &Section,
    (features, labels): &(Vec<String>, Vec<String>),
    element: ElementType,
    frame_mode: bool,
) -> Result<Vec<Box<dyn Format>>> {
    let mut deserializers = Vec::with_capacity(features.len() + labels.len());
    let features = features.iter().map(|name| (name, SpeechType::Features));
    let labels = labels.iter().map(|name| (name, SpeechType::Labels));
    for (name, kind) in features.chain(labels) {
        let stream = section.section(name)?;
        check_kind(&stream, name, kind)?;
        let common = Common {
            is_primary: deserializers.is_empty(),
            hash_keys: false,
            frame_mode,
            element,
            // CNTK 2.7 checks this in composite readers only.
            boundaries_of_frames: true,
        };
        let of = SpeechStream { name: name.clone(), sizes: stream.clone(), stream: stream.clone() };
        deserializers.push(htk::read_stream(kind, &stream, || Ok(of), &common)?);
    }
    Ok(deserializers)
}

/// Checks that `type`, or `labelType` for labels, matches the section.
fn check_kind(stream: &Section, name: &str, kind: SpeechType) -> Result<()> {
    let (key, found, expected, message) = match kind {
        SpeechType::Features => {
            ("type", stream.text_or("type", "real")?, "real", "Feature type must be of type 'real'.")
        }
        _ => {
            let key = if stream.exists("labelType") { "labelType" } else { "type" };
            let found = stream.text_or(key, "category")?;
            stream.ignore(&["type"]);
            (key, found, "category", "Label type must be of type 'category'.")
        }
    };
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    let detail = format!("In {} it is '{found}'.", stream.place());
    Err(stream.blame(key, Error::config(InvalidArgument, message).with_detail(detail).in_stream(name)))
}
