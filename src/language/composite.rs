//! Composite readers: `deserializers = ( [ ... ] : [ ... ] )` and the keys beside it.
//!
//! The order of the reads is CNTK's: it decides which of several mistakes is reported.

use super::ExtensionTypes;
use super::convert::WidenedInt;
use super::images::{self, Scope};
use super::module::Module;
use super::native::{ADDED, Added, Native, TEXT_TYPE, added, check_type, element_type};
use super::options::{ForeignOptions, Order, Packing, ReaderSettings, Shape, UserOptions, WindowSize};
use super::section::Section;
use super::speech::{self, Common};
use super::{UserType, binary, text};
use cntk_reader_core::error::ExceptionClass::{InvalidArgument, Logic, Runtime};
use cntk_reader_core::format::options::{Adapter, Format};
use cntk_reader_core::format::user::{Description, lacks_list_of};
use cntk_reader_core::option;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// CNTK's window for "all of the data", in either unit.
pub(super) const AUTO_WINDOW: u64 = (1 << 62) - 1;

/// CNTK's window for user-defined deserializers, in chunks.
const DEFAULT_USER_WINDOW: u64 = 128;

/// CNTK's deserializers with textual sequence keys, unless `useNumericSequenceKeys` says otherwise.
/// CNTK does not include binary labels and lattices.
const TEXTUAL_TYPES: [&str; 2] = ["HTKFeatureDeserializer", "HTKMLFDeserializer"];

/// Values that the reader passes on to the section of every deserializer.
struct Inherited {
    /// The reader's section.
    section: Section,
    frame_mode: bool,
    hash_keys: bool,
    precision: String,
    trace_level: String,
    /// `reproducibleTransforms`, which a deserializer may override.
    reproducible: bool,
}

/// Reads a section with `deserializers`, some of which may belong to others.
pub(super) fn read_with(section: &Section, others: ExtensionTypes<'_>) -> Result<ReaderSettings> {
    section.ignore(&["readerType", "module", "type", "checkData", "truncationLength"]);
    let write = section.text_or("action", "")?.eq_ignore_ascii_case("write");
    let elements = read_elements(section, others)?;
    let has = |name: &str| elements.iter().any(|(deserializer, _)| deserializer == name);

    let has_added = |fact: fn(&Added) -> bool| ADDED.iter().any(|added| fact(added) && has(added.name));
    let textual_keys =
        TEXTUAL_TYPES.iter().any(|name| has(name)) || has_added(|added| added.has_textual_keys);
    let numeric_keys = section.get_or("useNumericSequenceKeys", !textual_keys)?;
    let hash_keys = section.get_or("hashSequenceKeys", false)?;
    if numeric_keys && hash_keys {
        let error =
            Error::config(Runtime, "Hashing should not be used with numeric sequence keys.").as_cntk();
        let error = error.with_detail(format!(
            "‹hash_keys› in {} is for keys that are text: set ‹numeric_keys = false›, or leave it out.",
            section.place()
        ));
        return Err(section.blame("hashSequenceKeys", error));
    }
    let mut packing = read_packing(section, write)?;
    let inherited = Inherited {
        section: section.clone(),
        frame_mode: packing == Packing::Frame,
        hash_keys,
        precision: section.text_or("precision", "float")?,
        trace_level: match section.text_or("traceLevel", "")? {
            // Raised like in `text::read_trace_level`.
            level
                if section.is_native() && read_level(section, "verbosity")? > level.parse().unwrap_or(1) =>
            {
                read_level(section, "verbosity")?.to_string()
            }
            level => level,
        },
        reproducible: section.get_or("reproducibleTransforms", false)?,
    };
    let mut adapters = Vec::new();
    let deserializers = read_deserializers(&elements, &inherited, others, &mut adapters)?;
    if deserializers.is_empty() {
        return Err(no_deserializers(section));
    }
    let verbosity = read_level(section, "verbosity")?;
    if deserializers.len() > 1 {
        section.get_or("checkData", true)?;
    }
    let order = if !write && section.get_or("randomize", true)? {
        let only_images = deserializers.len() == 1 && has(images::TYPE);
        Order::Block {
            window: if is_listed_late(&deserializers) {
                read_user_window(section)?
            } else if only_images {
                // CNTK 2.7: every image is one sample, in whatever mode.
                packing = Packing::Frame;
                read_image_window(section)?
            } else {
                read_window(section, has(TEXT_TYPE) || has_added(|added| added.has_window_of_text))?
            },
            seed: section.get_or("randomizationSeed", 0)?,
        }
    } else {
        // These keys are not unread: a configuration may keep them while randomization is off.
        section.ignore(&[
            "randomize",
            "randomizationWindow",
            "sampleBasedRandomizationWindow",
            "randomizationSeed",
            "chunkSizeInBytes",
        ]);
        Order::InOrder
    };
    // CNTK 2.7: only `ImageDeserializer` turns it on. Results do not depend on it, but user code
    // might.
    let has_images = has(images::TYPE) || has(images::BASE64_TYPE);
    let has_others = !adapters.is_empty() && !deserializers.iter().any(|one| one.facts().is_foreign);
    let multithreaded = section.get_or("multiThreadedDeserialization", has_images || has_others)?;
    let max_errors = section.get_or("maxErrors", WidenedInt(0))?.0;
    let mut deserializers = deserializers;
    for one in &mut deserializers {
        images::tolerate(&mut **one, max_errors);
    }
    let lockstep = read_lockstep(section, packing, is_listed_late(&deserializers))?;
    let local_timeline = section.get_or("localTimeline", !lockstep)?;
    let prefetch = read_common(section)?;
    let trace_level = match inherited.trace_level.as_str() {
        "" => 1,
        _ if section.is_native() && !section.exists("traceLevel") => verbosity.cast_unsigned(),
        _ => {
            let level = read_level(section, "traceLevel")?;
            let level = if section.is_native() { level.max(verbosity) } else { level };
            level.cast_unsigned()
        }
    };
    Ok(ReaderSettings {
        shape: Shape::Composite,
        deserializers,
        adapters,
        numeric_keys,
        hash_keys,
        order,
        packing,
        expand_sparse: section.get_or("expandSparse", true)?,
        lanes_by_epoch: None,
        local_timeline,
        lockstep,
        max_errors,
        element: element_type(&inherited.precision, section)?,
        trace_level,
        verbosity,
        multithreaded,
        prefetch,
        front_end: FrontEnd::default(),
        in_place_of: None,
        packing_key: match packing {
            Packing::Truncated { .. } => section.written("truncated"),
            Packing::Frame | Packing::Sequence => section.written("frameMode"),
        },
        descriptions: elements.iter().map(|(_, element)| element.written_key("file")).collect(),
    })
}

/// Returns whether workers read in lockstep, which requires one timeline of whole sequences for all
/// of them.
fn read_lockstep(section: &Section, packing: Packing, is_listed_late: bool) -> Result<bool> {
    if !section.get_or("lockstep", false)? {
        return Ok(false);
    }
    let reason = if section.get_or("localTimeline", false)? {
        "‹local_timeline = true› lets each worker go through the data at its own pace. Leave it out"
    } else if matches!(packing, Packing::Truncated { .. }) {
        "‹truncated› leaves each worker pieces of sequences for later. Train on whole sequences"
    } else if is_listed_late {
        "The chunks of the user's deserializer list their sequences only when they are loaded, so a worker does not know the \
         sequences of the others. Add ‹listing_method›"
    } else {
        return Ok(true);
    };
    let error = Error::config(Runtime, "Workers cannot read in lockstep here.");
    let detail = format!("{reason}, or remove ‹lockstep› from {}.", section.place());
    Err(section.blame("lockstep", error.with_detail(detail)))
}

/// Returns the sections of all deserializers with their types: first the elements of the array,
/// then the added ones.
fn read_elements(section: &Section, others: ExtensionTypes<'_>) -> Result<Vec<(String, Section)>> {
    let mut elements = Vec::new();
    let mut users: HashSet<&str> = HashSet::new();
    for UserType { name, .. } in others.users {
        if !users.insert(name) {
            let message = format!(
                "Two deserializers were added under the name '{name}'. Give each one a name of its own."
            );
            return Err(Error::argument(message));
        }
    }
    let mut named = HashSet::new();
    let list = section.find("deserializers").map(|(_, text)| &**text).unwrap_or_default();
    if section.is_native()
        && !section.finds_list("deserializers")
        && list != "default"
        && !list.is_empty()
        && !list.starts_with(['(', '[', '{'])
    {
        let message = format!("'deserializers' in {} is not a list of sections.", section.place());
        return Err(section.blame("deserializers", Error::config(InvalidArgument, message).with_detail(LIST)));
    }
    for element in section.array_of_sections("deserializers")?.sections() {
        let element = element.map_err(|error| hint_of_parentheses(section, error))?;
        // In CNTK's place an element sees no variables of the sections around it.
        let element = if section.is_native() { element.with_variables(section) } else { element };
        let name = element.text("type").map_err(|error| {
            let module = element.raw("module").unwrap_or_default().trim_matches('"');
            hint_of_parentheses(section, error.with_detail(super::native::types_of(module)))
        })?;
        named.extend(users.get(&*name));
        elements.push((name, element));
    }
    for added in others.added {
        let name = added.text("type")?;
        let user = users.get(&*name);
        if user.is_none_or(|user| named.insert(*user)) {
            elements.push((name, added.clone()));
        }
    }
    if elements.is_empty() {
        elements.extend(others.users.iter().map(|user| (user.name.to_owned(), Section::of_user(user.name))));
    }
    Ok(elements)
}

/// Reads `verbosity` or `traceLevel`. CNTK takes a negative value for a huge one, and reads the
/// trace level as a string.
pub(super) fn read_level(section: &Section, key: &str) -> Result<i32> {
    let level = match key {
        "traceLevel" => section.parsed_or(key, 0i32)?,
        _ => section.get_or(key, 0i32)?,
    };
    if level >= 0 || !section.is_native() {
        return Ok(level);
    }
    let message = format!("The value of {} in {} is negative.", option::of_key(key), section.place());
    let error = Error::config(InvalidArgument, message);
    Err(section.blame(key, error.with_detail("Expected 0 (errors), 1 (warnings) or 2 (information).")))
}

/// Reads the keys that CNTK reads for every reader. Returns `prefetch`.
pub(super) fn read_common(section: &Section) -> Result<bool> {
    // The number of parallel sequences has no effect, but a bad value is an error.
    section.array_or_empty("nbruttsineachrecurrentiter")?.values::<i32>()?;
    section.get_or("prefetch", true)
}

fn read_packing(section: &Section, write: bool) -> Result<Packing> {
    let frame_mode = section.get_or("frameMode", false)?;
    let truncated = section.get_or("truncated", false)?;
    if frame_mode && truncated {
        let error = Error::config(Logic, "frameMode and truncated BPTT are mutually exclusive.").as_cntk();
        let error = error.with_detail(format!(
            "Both ‹frame_mode› and ‹truncating› are set in {}: remove one of them. Frames are for samples that do \
             not depend on each other, truncation is for recurrent networks on long sequences.",
            section.place()
        ));
        return Err(section.blame("truncated", error));
    }
    let mut length = 0;
    if truncated && !write {
        length = section.get_or("truncationLength", WidenedInt(0))?.0;
        if length == 0 {
            let error = Error::config(InvalidArgument, "Truncation length cannot be 0.").as_cntk();
            let error = error.with_detail(format!(
                "‹truncated› in {} needs ‹steps›, the number of time steps of a minibatch.",
                section.place()
            ));
            return Err(match section.exists("truncationLength") {
                true => section.blame("truncationLength", error),
                false => section.blame("truncated", error),
            });
        }
    }
    let right_splice = section.get_or("rightSplice", WidenedInt(0))?.0;
    if right_splice > length {
        let error =
            Error::config(InvalidArgument, "rightSplice should not be greater than truncation length")
                .as_cntk();
        let error = error.with_detail(format!(
            "In {} ‹right_splice› is {right_splice} and the truncation length {length}{}.",
            section.place(),
            if length == 0 { ", because nothing is truncated" } else { "" }
        ));
        let error =
            error.with_detail("Set ‹right_splice› to at most the truncation length, or leave it out.");
        return Err(section.blame("rightSplice", error));
    }
    Ok(if length > 0 {
        Packing::Truncated { length, right_splice }
    } else if frame_mode && !write {
        Packing::Frame
    } else {
        Packing::Sequence
    })
}

/// Refuses a truncation length without `truncated`, unless `truncated` is set to false. CNTK
/// ignores it.
pub(super) fn check_truncation(section: &Section) -> Result<()> {
    let length = section.get_or("truncationLength", WidenedInt(0));
    if !section.exists_here("truncationLength") || section.exists("truncated") {
        return Ok(());
    }
    match length {
        Ok(WidenedInt(0)) | Err(_) => return Ok(()),
        Ok(_) => {}
    }
    let message = "'truncationLength' has no effect, because 'truncated' is not set.";
    let error = Error::config(InvalidArgument, message).with_detail(format!(
        "To cut sequences into minibatches of 'truncationLength' steps, add 'truncated = true' to {}; to deliver them whole, \
         remove 'truncationLength', or add 'truncated = false'.",
        section.place()
    ));
    Err(section.blame("truncationLength", error))
}

fn read_window(section: &Section, is_in_chunks: bool) -> Result<WindowSize> {
    let window = section.get_or("randomizationWindow", AUTO_WINDOW)?;
    if window == 0 && section.is_native() {
        let line = format!(
            "‹window = 0› in {} randomizes within chunks; for the data's own order set ‹randomize = false›",
            section.place()
        );
        section.log().note(section.path(), "randomizationWindow", line);
    }
    let in_samples = section.get_or("sampleBasedRandomizationWindow", true)?;
    if !is_in_chunks || section.exists_here("randomizationWindow") {
        section.ignore(&["chunkSizeInBytes"]);
        return Ok(text::window_size(window, in_samples));
    }
    if in_samples && section.exists_here("sampleBasedRandomizationWindow") {
        return Err(no_window(section));
    }
    // The reader's chunk size determines the window, a deserializer's chunk size the chunks.
    let chunk_size = text::read_chunk_size(section, "‹window_chunk_size›")?;
    Ok(text::window_size(text::automatic_window(chunk_size), false))
}

fn no_window(section: &Section) -> Error {
    let message = "'sampleBasedRandomizationWindow' (== 'true') requires that the 'randomizationWindow' is explicitly specified.";
    let error = Error::config(Logic, message).as_cntk().with_detail(format!(
        "Add 'randomizationWindow = ...', in samples, to {}, or remove 'sampleBasedRandomizationWindow'.",
        section.place()
    ));
    section.blame("sampleBasedRandomizationWindow", error)
}

/// Reads the window of a reader of images only. The default is one chunk, which is one image.
fn read_image_window(section: &Section) -> Result<WindowSize> {
    section.ignore(&["chunkSizeInBytes"]);
    let window = section.get_or("randomizationWindow", 1)?;
    Ok(text::window_size(window, section.get_or("sampleBasedRandomizationWindow", true)?))
}

/// Returns whether the only deserializer lists the sequences of a chunk only when the chunk is
/// loaded.
fn is_listed_late(deserializers: &[Box<dyn Format>]) -> bool {
    let [one] = deserializers else { return false };
    one.of::<UserOptions>().is_some_and(|user| !user.composable)
        || one.of::<ForeignOptions>().is_some_and(|foreign| !foreign.composable)
}

/// Reads the window of user-defined deserializers. CNTK's default, all of the data, would never be
/// filled; its API always writes 128 chunks unless the caller chooses another window.
fn read_user_window(section: &Section) -> Result<WindowSize> {
    section.ignore(&["chunkSizeInBytes"]);
    let in_samples = section.get_or("sampleBasedRandomizationWindow", false)?;
    if in_samples && !section.exists("randomizationWindow") {
        return Err(no_window(section));
    }
    let window = section.get_or("randomizationWindow", DEFAULT_USER_WINDOW)?;
    Ok(text::window_size(window, in_samples))
}

fn read_deserializers(
    elements: &[(String, Section)],
    inherited: &Inherited,
    others: ExtensionTypes<'_>,
    adapters: &mut Vec<Arc<dyn Adapter>>,
) -> Result<Vec<Box<dyn Format>>> {
    let scope = Scope { module: "ImageReader", users: others.transforms };
    let users: HashMap<&str, UserType<'_>> = others.users.iter().map(|user| (user.name, *user)).collect();
    let mut deserializers: Vec<Box<dyn Format>> = Vec::new();
    // Advice for the first deserializer that cannot be joined with others.
    let mut obstacle = None;
    for (name, element) in elements {
        element.ignore(&["module", "type", "verbosity", "multiThreadedDeserialization"]);
        let is_composable = element.get_or("composable", true)?;
        if let Some(user) = users.get(name.as_str()) {
            let composable = user.composable && is_composable;
            if !composable {
                obstacle.get_or_insert_with(|| (obstacle_of(name, !user.composable), element.clone()));
            }
            let number = deserializers.len();
            adapters.extend(images::read_streams(element, number, false, inherited.reproducible, scope)?);
            let user = UserOptions { name: name.clone(), composable };
            deserializers.push(Box::new(user));
            continue;
        }
        if !is_composable {
            obstacle.get_or_insert_with(|| (obstacle_of(name, false), element.clone()));
        }
        let frame_mode = if inherited.frame_mode { "true" } else { "false" };
        let mut values = vec![("frameMode", frame_mode), ("precision", &inherited.precision)];
        if !inherited.trace_level.is_empty() {
            values.push(("traceLevel", &inherited.trace_level));
        }
        note_keys_of_readers(element);
        let element = element.with(&values);
        let added = added(name).filter(|_| !element.exists_here("module"));
        let module = match added {
            Some(_) => String::new(),
            None => element.text("module").map_err(|error| hint_of_users(error, name))?,
        };
        // A module that makes any transform of an image deserializer makes the whole chain,
        // including the deserializer.
        if added.is_none()
            && others.foreign
            && (is_foreign(&module) || is_chained_to_foreign(&module, &element))
        {
            element.ignore(&element.keys().collect::<Vec<_>>());
            deserializers.push(Box::new(ForeignOptions {
                name: name.clone(),
                description: Description::new(element),
                composable: is_composable,
            }));
            continue;
        }
        let native = match added {
            Some(added) => Native::Added(added),
            None => check_type(&module, name).map_err(|error| element.blame("type", error))?,
        };
        let common = Common {
            is_primary: deserializers.is_empty(),
            hash_keys: inherited.hash_keys,
            frame_mode: inherited.frame_mode,
            element: element_type(&inherited.precision, &inherited.section)?,
            boundaries_of_frames: false,
        };
        element.ignore(&["frameMode", "precision", "traceLevel"]);
        deserializers.push(match native {
            Native::Text => Box::new(text::read(&element, common.element)?.options),
            Native::Binary => Box::new(binary::read(&element, common.element)?.options),
            Native::Image(base64) => {
                let scope = Scope { module: &module, ..scope };
                let common =
                    images::Common { element: common.element, reproducible: inherited.reproducible, scope };
                images::read(base64, &element, common)?
            }
            Native::Speech(kind) => speech::read(kind, &element, &common)?,
            Native::Added(added) => (added.read)(&element, &common)?,
        });
        if matches!(native, Native::Text | Native::Binary) {
            let number = deserializers.len() - 1;
            adapters.extend(images::read_streams(&element, number, true, inherited.reproducible, scope)?);
        }
        if !matches!(native, Native::Image(_)) {
            check_transforms(&element, native.module())?;
        }
    }
    let Some((obstacle, element)) = obstacle.filter(|_| !is_listed_late(&deserializers)) else {
        return Ok(deserializers);
    };
    let error = if deserializers.len() > 1 {
        let message = "Currently user defined deserializers do not support composability. Please specify a single deserializer.";
        Error::config(InvalidArgument, message).as_cntk().with_detail(obstacle)
    } else {
        let message = "Deserializers with 'composable = false' are not supported yet.";
        Error::config(InvalidArgument, message).with_detail("Remove the key 'composable'.")
    };
    Err(element.blame("composable", error))
}

/// Notes keys in a deserializer's section that have an effect only in the reader's section. CNTK
/// converts some of them there.
fn note_keys_of_readers(element: &Section) {
    const KEYS: [&str; 4] =
        ["randomize", "randomizationWindow", "sampleBasedRandomizationWindow", "randomizationSeed"];
    for key in KEYS.into_iter().filter(|key| element.is_native() && element.exists_here(key)) {
        let place = element.written(key).describe().map_or_else(String::new, |place| format!(" ({place})"));
        let line = format!(
            "The configuration key '{key}' in {} has no effect; it belongs beside 'deserializers'{place}",
            element.place()
        );
        element.log().note(element.path(), key, line);
    }
}

/// Explains why a deserializer cannot be joined with others and what to do: it lacks the method
/// that lists its sequences, or its section says `composable = false`.
fn obstacle_of(name: &str, lacks_list: bool) -> String {
    if lacks_list {
        return lacks_list_of(name);
    }
    format!(
        "The section of '{name}' says `composable = false`, so it cannot be joined with others. Leave that key out, or \
         read '{name}' with a reader of its own."
    )
}

/// The syntax of `deserializers`.
const LIST: &str = "A list stands in parentheses: deserializers = ( [ type = ... ] : [ type = ... ] ).";

/// Replaces the error of an element of `deserializers` if the value is a section instead of a list.
fn hint_of_parentheses(section: &Section, error: Error) -> Error {
    let text = section.find("deserializers").map(|(_, text)| text.trim_start());
    if !text.is_some_and(|text| text.starts_with(['[', '{'])) {
        return error;
    }
    // The element's place would mislead: no element was meant to begin there.
    let error = Error::config(error.class(), error.message())
        .as_cntk()
        .with_detail("The value of 'deserializers' is a section, not a list.")
        .with_detail(LIST);
    section.blame("deserializers", error)
}

/// Explains a missing `module`: that of a known type, or the deserializer may be user-defined.
fn hint_of_users(error: Error, name: &str) -> Error {
    if let Some(module) = super::native::module_of(name) {
        return error.with_detail(format!("The module of the type '{name}' is '{module}'."));
    }
    let error = error.with_detail(super::native::meant_type(name));
    error.with_detail(format!(
        "A deserializer of your own has no 'module': register it by the name '{name}' before the reader is opened."
    ))
}

/// Returns whether a deserializer belongs to a module that is not the library's. Unknown types of
/// the library's own modules are errors, not foreign.
fn is_foreign(module: &str) -> bool {
    Module::by_name(module).is_none()
}

/// Returns whether a deserializer reads images and other modules make some of their transforms.
fn is_chained_to_foreign(module: &str, element: &Section) -> bool {
    Module::by_name(module) == Some(Module::Image) && images::has_foreign(element)
}

/// Returns the error of a reader without deserializers.
pub(super) fn no_deserializers(section: &Section) -> Error {
    let error =
        Error::config(InvalidArgument, "Could not find deserializers in the reader config.").as_cntk();
    let detail = format!("{} needs ‹deserializers›.", section.subject());
    section.blame_missing("deserializers", error.with_detail(detail))
}

/// Refuses `transforms` on streams that cannot have them, in the words of CNTK's module loader.
fn check_transforms(element: &Section, module: Option<Module>) -> Result<()> {
    if !element.exists_here("input") {
        return Ok(());
    }
    let input = element.section("input")?;
    for stream in input.keys() {
        let section = input.child(stream)?;
        let is_read =
            matches!(module, Some(Module::Text | Module::Binary)) && section.exists_here("imageShape");
        if section.exists_here("transforms") && !is_read {
            let message = match module.map(Module::plugin) {
                Some(plugin) => format!("Symbol 'CreateTransformer' not found in plugin '{plugin}-2.7.so'"),
                None => format!("The stream '{stream}' has ‹transforms›, which its format does not take."),
            };
            let is_cntk = module.is_some();
            let detail = match module {
                Some(Module::Text | Module::Binary) => {
                    "Transforms are for images: remove ‹transforms› from this stream, or add ‹image_shape› if its samples are images."
                }
                _ => "Transforms are for images; remove ‹transforms› from this stream.",
            };
            let error = Error::config(Runtime, message);
            let error = if is_cntk { error.as_cntk() } else { error };
            return Err(section.blame("transforms", error.with_detail(detail).in_stream(stream)));
        }
    }
    Ok(())
}
