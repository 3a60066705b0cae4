//! The keys of the binary (CBF) deserializer. The file describes its streams; the configuration may
//! rename them.

use super::element;
use super::options::{BinaryOptions, WindowSize};
use super::section::Section;
use super::text::{self, DEFAULT_CHUNK_SIZE};
use cntk_reader_core::Result;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::stream::ElementType;

/// The contents of the section of a binary deserializer or binary reader.
pub(super) struct BinarySection {
    pub options: BinaryOptions,
    /// `randomize` and the window; composite readers have their own. None means the data's own
    /// order.
    pub window: Option<WindowSize>,
}

/// Reads the section.
pub(super) fn read(section: &Section, element: ElementType) -> Result<BinarySection> {
    let (mut renamed, mut ids) = (Vec::new(), Vec::new());
    if section.exists_here("input") {
        let input = section.section("input")?;
        for name in input.keys() {
            let stream = input.child(name)?;
            // The file gives these.
            stream.ignore(&["dim", "format", "definesMBSize"]);
            let alias = if stream.exists_here("alias") { stream.text("alias")? } else { name.to_owned() };
            renamed.push((name.to_owned(), alias));
            ids.extend(element::read_ids(&stream, name)?.map(|ids| (name.to_owned(), ids)));
        }
    }
    let files = section.files("file")?;
    let keep_data_in_memory = section.get_or("keepDataInMemory", false)?;
    let shared_ids = section.get_or("sharedIds", false)?;
    let trace_level = text::read_trace_level(section)?;
    section.ignore(&["frameMode", "precision", "chunkSizeInBytes"]);
    let window = text::read_window(section, DEFAULT_CHUNK_SIZE)?;
    let options = BinaryOptions {
        files,
        shared_ids,
        renamed,
        ids,
        ignores_unmatched: false,
        keep_data_in_memory,
        log: Logger::new(trace_level),
        element,
    };
    Ok(BinarySection { options, window })
}
