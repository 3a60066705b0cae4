//! Configurations that the host has parsed itself: sections of raw keys and values.

use super::call::{Output, guard, guard_silently, input, inputs};
use super::error::cntk_reader_error;
use super::reader::cntk_reader;
use super::status::cntk_reader_status;
use super::text;
use crate::Result;
use crate::config::{self, ReaderType, Section};
use crate::reader::Others;
use std::ffi::c_char;

/// A section of a configuration: keys with their raw texts, and the section around it. For hosts that have parsed
/// CNTK's configuration language themselves; others open a reader from text.
///
/// Threads: immutable, may be shared.
pub struct cntk_reader_section(pub(super) Section);

/// One key of a section and its raw text: brackets, comments and `$name$` kept, outer quotes removed. UTF-8; a length
/// may be CNTK_READER_NUL_TERMINATED.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_section_entry {
    /// The key.
    pub key: *const c_char,
    /// Bytes of the key.
    pub key_length: usize,
    /// The raw text.
    pub text: *const c_char,
    /// Bytes of the text.
    pub text_length: usize,
}

/// Which of CNTK's readers a section describes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_section_kind {
    /// The one with `deserializers` (CompositeDataReader).
    CNTK_READER_SECTION_KIND_COMPOSITE = 0,
    /// The one of one text file (CNTKTextFormatReader).
    CNTK_READER_SECTION_KIND_TEXT = 1,
    /// The one of one binary file (CNTKBinaryReader). Since ABI 2.
    CNTK_READER_SECTION_KIND_BINARY = 2,
}

/// The kind by its number: C may pass any.
pub(super) fn kind(number: u32) -> Result<ReaderType> {
    match number {
        0 => Ok(ReaderType::Composite),
        1 => Ok(ReaderType::Text),
        2 => Ok(ReaderType::Binary),
        _ => Err(crate::Error::argument(format!("There is no kind of reader {number}."))),
    }
}

/// Makes a section. `path` is its name in messages ("global:reader"; `path_length` bytes, or
/// CNTK_READER_NUL_TERMINATED); `parent` is the section around it, where keys are looked up that this one lacks, or
/// NULL. Everything is copied. The caller frees the section with cntk_reader_section_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_create(
    path: *const c_char,
    path_length: usize,
    entries: *const cntk_reader_section_entry,
    count: usize,
    parent: *const cntk_reader_section,
    section: *mut *mut cntk_reader_section,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (path, section) = (text::utf8(path, path_length, "path")?, Output::new(section, "section")?);
            let entries = inputs(entries, count, "entries")?
                .iter()
                .map(|entry| {
                    let key = text::utf8(entry.key, entry.key_length, "key")?;
                    Ok((key, text::utf8(entry.text, entry.text_length, key)?))
                })
                .collect::<Result<Vec<_>>>()?;
            let parent = parent.as_ref().map(|cntk_reader_section(parent)| parent);
            let made = Section::from_entries(path, entries, parent);
            section.set(Box::into_raw(Box::new(cntk_reader_section(made))));
            Ok(())
        })
    }
}

/// Frees a section. NULL is allowed. Readers that were opened from it, and sections that have it as parent, stay as they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_free(section: *mut cntk_reader_section) {
    if !section.is_null() {
        // SAFETY: the caller gives up its ownership, which was passed out by `Box::into_raw`.
        guard_silently(|| drop(unsafe { Box::from_raw(section) }));
    }
}

/// Gives a section's name in messages: NUL-terminated if it fits into `capacity` bytes, and its length. `text` may be
/// NULL if `capacity` is 0.
///
/// Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_get_path(
    section: *const cntk_reader_section,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (cntk_reader_section(section), length) =
                (input(section, "section")?, Output::new(length, "length")?);
            text::write(section.path(), text, capacity, length)
        })
    }
}

/// Gives the keys of a section with their raw texts, ordered without regard to case: as many as fit into `capacity`, and
/// their number. Pointers live as long as the section. `entries` may be NULL if `capacity` is 0.
///
/// Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_list_entries(
    section: *const cntk_reader_section,
    entries: *mut cntk_reader_section_entry,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (cntk_reader_section(section), count) =
                (input(section, "section")?, Output::new(count, "count")?);
            for (i, key) in section.keys().enumerate().take(capacity) {
                let raw = section.raw(key).unwrap_or_default();
                Output::new(entries.wrapping_add(i), "entries")?.set(cntk_reader_section_entry {
                    key: key.as_ptr().cast(),
                    key_length: key.len(),
                    text: raw.as_ptr().cast(),
                    text_length: raw.len(),
                });
            }
            count.set(section.keys().count());
            Ok(())
        })
    }
}

/// Opens the section that a key of this one has as its value, or NULL if there is no such key. The caller frees it.
///
/// Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_open_child(
    section: *const cntk_reader_section,
    key: *const c_char,
    key_length: usize,
    child: *mut *mut cntk_reader_section,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (cntk_reader_section(section), output) =
                (input(section, "section")?, Output::new(child, "child")?);
            let key = text::utf8(key, key_length, "key")?;
            output.set(match section.exists_here(key) {
                true => Box::into_raw(Box::new(cntk_reader_section(section.child(key)?))),
                false => std::ptr::null_mut(),
            });
            Ok(())
        })
    }
}

/// Opens element `index`, from 0, of the list of sections that a key of this one has as its value: `( [ ... ] : [ ... ] )`.
/// Gives NULL behind the last one. The caller frees it.
///
/// Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_open_element(
    section: *const cntk_reader_section,
    key: *const c_char,
    key_length: usize,
    index: usize,
    element: *mut *mut cntk_reader_section,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (cntk_reader_section(section), output) =
                (input(section, "section")?, Output::new(element, "element")?);
            let array = section.array_or_empty(text::utf8(key, key_length, "key")?)?;
            let found = array.sections().nth(index).transpose()?;
            let found = found.map(|found| Box::into_raw(Box::new(cntk_reader_section(found))));
            output.set(found.unwrap_or(std::ptr::null_mut()));
            Ok(())
        })
    }
}

/// Reads a key of a section, or of one around it, as a truth value: 1 or 0. If it is absent, the value is `fallback`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_get_flag(
    section: *const cntk_reader_section,
    key: *const c_char,
    key_length: usize,
    fallback: u32,
    value: *mut u32,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (cntk_reader_section(section), value) =
                (input(section, "section")?, Output::new(value, "value")?);
            value.set(section.get_or(text::utf8(key, key_length, "key")?, fallback != 0)?.into());
            Ok(())
        })
    }
}

/// Opens a reader from its section, as cntk_reader_open_text does from a text. `kind` is a cntk_reader_section_kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_open_section(
    section: *const cntk_reader_section,
    kind: u32,
    reader: *mut *mut cntk_reader,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (cntk_reader_section(section), reader) =
                (input(section, "section")?, Output::new(reader, "reader")?);
            let options = config::from_reader_section(section, self::kind(kind)?, false)?;
            reader.set(cntk_reader::open(&options, &Others::default())?);
            Ok(())
        })
    }
}
