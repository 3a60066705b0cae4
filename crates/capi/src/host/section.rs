//! Configurations that the host has parsed: sections of raw keys and values.

use crate::call::{call, given, inputs, outputs};
use crate::error::cntk_reader_error;
use crate::status::cntk_reader_status;
use crate::text;
use ::cntk_reader::language::{ReaderType, Section};
use cntk_reader_core::option::release::Release;
use cntk_reader_core::{Error, Result};
use std::collections::HashSet;
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// A section of a configuration: keys with their raw text, and the enclosing section. For hosts
/// that have parsed CNTK's configuration language themselves; other programs open a reader from
/// text.
///
/// Threads: immutable, may be shared.
pub struct cntk_reader_section(pub(crate) Section);

/// A key of a section with its raw text: brackets, comments and `$name$` kept, outer quotes
/// removed. UTF-8; a length may be CNTK_READER_NUL_TERMINATED.
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
    /// 1 if the text is a literal value, in which comments, brackets and `$name$` have no meaning;
    /// else 0.
    pub literal: u32,
    /// Reserved; 0.
    pub reserved: u32,
}

impl cntk_reader_section_entry {
    pub(crate) fn new(key: &str, text: &str, literal: bool) -> Self {
        cntk_reader_section_entry {
            key: key.as_ptr().cast(),
            key_length: key.len(),
            text: text.as_ptr().cast(),
            text_length: text.len(),
            literal: literal.into(),
            reserved: 0,
        }
    }
}

/// The CNTK reader that a section describes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_section_kind {
    /// Composite reader with `deserializers` (CompositeDataReader).
    CNTK_READER_SECTION_KIND_COMPOSITE = 0,
    /// Reader of one text file (CNTKTextFormatReader).
    CNTK_READER_SECTION_KIND_TEXT = 1,
    /// Reader of one binary file (CNTKBinaryReader).
    CNTK_READER_SECTION_KIND_BINARY = 2,
    /// Reader of speech features and labels in sections of its own (HTKDeserializers,
    /// HTKMLFReader).
    CNTK_READER_SECTION_KIND_HTK = 3,
    /// Reader of images and labels in sections of its own (ImageReader).
    CNTK_READER_SECTION_KIND_IMAGE = 4,
}

/// Releases of CNTK that read the same data differently.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_release {
    /// CNTK 2.0 to 2.7.
    CNTK_READER_RELEASE_CURRENT = 0,
    /// CNTK 2.0 beta 12 and beta 15: minibatches end with the epoch, workers count the sequences of
    /// all workers, several sequences may have the same key, and text files are parsed more
    /// strictly.
    CNTK_READER_RELEASE_BETA = 1,
}

/// Parses a cntk_reader_release, which C callers may set to any number.
pub(crate) fn release(number: u32) -> Result<Release> {
    match number {
        0 => Ok(Release::Current),
        1 => Ok(Release::Beta),
        _ => Err(Error::argument(format!("{number} is not a cntk_reader_release."))),
    }
}

/// Parses a cntk_reader_section_kind, which C callers may set to any number.
pub(crate) fn kind(number: u32) -> Result<ReaderType> {
    match number {
        0 => Ok(ReaderType::Composite),
        1 => Ok(ReaderType::Text),
        2 => Ok(ReaderType::Binary),
        3 => Ok(ReaderType::Htk),
        4 => Ok(ReaderType::Image),
        _ => Err(Error::argument(format!("{number} is not a cntk_reader_section_kind."))),
    }
}

impl cntk_reader_section {
    fn hand_out(section: Section) -> *mut cntk_reader_section {
        Box::into_raw(Box::new(cntk_reader_section(section)))
    }
}

/// Creates a section. `path` (`path_length` bytes, or CNTK_READER_NUL_TERMINATED) is its name in
/// messages, such as "global:reader". `parent` is the enclosing section, in which missing keys are
/// looked up, or NULL. Everything is copied. The caller frees the section with
/// cntk_reader_section_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_create(
    path: *const c_char,
    path_length: usize,
    entries: *const cntk_reader_section_entry,
    count: usize,
    parent: Option<&cntk_reader_section>,
    section: Option<&mut MaybeUninit<*mut cntk_reader_section>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let section = given(section, "section")?;
        // SAFETY: `path` is NULL, which `utf8` refuses, or has `path_length` bytes or ends with a
        // NUL; `entries` is NULL, which `inputs` refuses unless `count` is 0, or has `count`
        // elements.
        let (path, entries) =
            unsafe { (text::utf8(path, path_length, "path")?, inputs(entries, count, "entries")?) };
        // SAFETY: the strings of each entry are valid for their lengths, as the struct documents.
        let parts = |entry: &cntk_reader_section_entry| unsafe {
            let key = text::utf8(entry.key, entry.key_length, "key")?;
            Ok((key, text::utf8(entry.text, entry.text_length, key)?, entry.literal != 0))
        };
        let entries = entries.iter().map(parts).collect::<Result<Vec<_>>>()?;
        let mut keys = HashSet::new();
        if let Some((key, ..)) = entries.iter().find(|(key, ..)| !keys.insert(key.to_ascii_lowercase())) {
            let message = format!("The section '{path}' has the key '{key}' more than once.");
            let detail = "Keep one of them. Keys are case-insensitive.";
            return Err(Error::argument(message).with_detail(detail));
        }
        let parent = parent.map(|cntk_reader_section(parent)| parent);
        let written = entries.iter().filter(|entry| !entry.2).map(|&(key, text, _)| (key, text));
        let literals = entries.iter().filter(|entry| entry.2);
        let made = Section::from_entries(path, written, parent);
        let made = literals.fold(made, |made, &(key, text, _)| made.with_literal(key, text));
        section.write(cntk_reader_section::hand_out(made));
        Ok(())
    })
}

/// Frees a section. NULL is allowed. Readers that were opened from it, and sections with it as
/// parent, are not affected.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_section_free(section: Option<Box<cntk_reader_section>>) {
    drop(section);
}

/// Writes a section's name in messages: NUL-terminated if it fits into `capacity` bytes. `length`
/// is set to its full length. `text` may be NULL if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_get_path(
    section: Option<&cntk_reader_section>,
    text: *mut c_char,
    capacity: usize,
    length: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (cntk_reader_section(section), length) = (given(section, "section")?, given(length, "length")?);
        // SAFETY: `text` is NULL, which `copy` refuses unless `capacity` is 0, or has `capacity`
        // bytes.
        length.write(unsafe { text::copy(section.path(), text, capacity) }?);
        Ok(())
    })
}

/// Lists the keys of a section with their raw text, ordered case-insensitively: writes the first
/// `capacity` of them, and their total number to `count`. Pointers are valid as long as the
/// section. `entries` may be NULL if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_list_entries(
    section: Option<&cntk_reader_section>,
    entries: *mut cntk_reader_section_entry,
    capacity: usize,
    count: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (cntk_reader_section(section), count) = (given(section, "section")?, given(count, "count")?);
        // SAFETY: `entries` is NULL, which `outputs` refuses unless `capacity` is 0, or has room
        // for `capacity` elements.
        let places = unsafe { outputs(entries, capacity, "entries") }?;
        for (place, key) in places.iter_mut().zip(section.keys()) {
            place.write(cntk_reader_section_entry::new(
                key,
                section.raw(key).unwrap_or_default(),
                section.is_literal(key),
            ));
        }
        count.write(section.keys().count());
        Ok(())
    })
}

/// Opens the section that is the value of a key of this one. `*child` is NULL if there is no such
/// key. The caller frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_open_child(
    section: Option<&cntk_reader_section>,
    key: *const c_char,
    key_length: usize,
    child: Option<&mut MaybeUninit<*mut cntk_reader_section>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (cntk_reader_section(section), child) = (given(section, "section")?, given(child, "child")?);
        // SAFETY: `key` is NULL, which `utf8` refuses, or has `key_length` bytes or ends with a
        // NUL.
        let key = unsafe { text::utf8(key, key_length, "key") }?;
        child.write(match section.exists_here(key) {
            true => cntk_reader_section::hand_out(section.child(key)?),
            false => null_mut(),
        });
        Ok(())
    })
}

/// Opens element `index`, counted from 0, of the list of sections `( [ ... ] : [ ... ] )` that is
/// the value of a key of this one. `*element` is NULL past the last one. The caller frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_open_element(
    section: Option<&cntk_reader_section>,
    key: *const c_char,
    key_length: usize,
    index: usize,
    element: Option<&mut MaybeUninit<*mut cntk_reader_section>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (cntk_reader_section(section), element) =
            (given(section, "section")?, given(element, "element")?);
        // SAFETY: `key` is NULL, which `utf8` refuses, or has `key_length` bytes or ends with a
        // NUL.
        let list = section.array_or_empty(unsafe { text::utf8(key, key_length, "key") }?)?;
        let found = list.sections().nth(index).transpose()?;
        element.write(found.map_or(null_mut(), cntk_reader_section::hand_out));
        Ok(())
    })
}

/// Reads a Boolean from a key of a section or of an enclosing one: 1 or 0. If the key is absent,
/// the value is `fallback`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_section_get_flag(
    section: Option<&cntk_reader_section>,
    key: *const c_char,
    key_length: usize,
    fallback: u32,
    value: Option<&mut MaybeUninit<u32>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (cntk_reader_section(section), value) = (given(section, "section")?, given(value, "value")?);
        // SAFETY: `key` is NULL, which `utf8` refuses, or has `key_length` bytes or ends with a
        // NUL.
        let key = unsafe { text::utf8(key, key_length, "key") }?;
        value.write(section.get_or(key, fallback != 0)?.into());
        Ok(())
    })
}
