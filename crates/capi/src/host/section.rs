//! Configurations that the host has parsed itself: sections of raw keys and values.

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

/// A section of a configuration: keys with their raw texts, and the section around it. For hosts that have parsed
/// CNTK's configuration language themselves; others open a reader from text.
///
/// Threads: immutable, may be shared.
pub struct cntk_reader_section(pub(crate) Section);

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
    /// 1 if the text is the value as it is: comments, brackets and `$name$` in it have no meaning. Else 0.
    pub literal: u32,
    /// 0.
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

/// Which of CNTK's readers a section describes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_section_kind {
    /// The one with `deserializers` (CompositeDataReader).
    CNTK_READER_SECTION_KIND_COMPOSITE = 0,
    /// The one of one text file (CNTKTextFormatReader).
    CNTK_READER_SECTION_KIND_TEXT = 1,
    /// The one of one binary file (CNTKBinaryReader).
    CNTK_READER_SECTION_KIND_BINARY = 2,
    /// The one of features and labels of speech in sections of its own (HTKDeserializers, HTKMLFReader).
    CNTK_READER_SECTION_KIND_HTK = 3,
    /// The one of images and labels in sections of its own (ImageReader).
    CNTK_READER_SECTION_KIND_IMAGE = 4,
}

/// Releases of CNTK that read the same data differently.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_release {
    /// CNTK 2.0 to 2.7.
    CNTK_READER_RELEASE_CURRENT = 0,
    /// The betas 12 and 15 of CNTK 2.0: minibatches end where the epoch does, workers count sequences of all workers, several sequences may
    /// have one key, and text files are read more strictly.
    CNTK_READER_RELEASE_BETA = 1,
}

/// The release by its number: C may pass any.
pub(crate) fn release(number: u32) -> Result<Release> {
    match number {
        0 => Ok(Release::Current),
        1 => Ok(Release::Beta),
        _ => Err(Error::argument(format!("{number} is no cntk_reader_release."))),
    }
}

/// The kind by its number: C may pass any.
pub(crate) fn kind(number: u32) -> Result<ReaderType> {
    match number {
        0 => Ok(ReaderType::Composite),
        1 => Ok(ReaderType::Text),
        2 => Ok(ReaderType::Binary),
        3 => Ok(ReaderType::Htk),
        4 => Ok(ReaderType::Image),
        _ => Err(Error::argument(format!("There is no kind of reader {number}."))),
    }
}

impl cntk_reader_section {
    fn hand_out(section: Section) -> *mut cntk_reader_section {
        Box::into_raw(Box::new(cntk_reader_section(section)))
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
    parent: Option<&cntk_reader_section>,
    section: Option<&mut MaybeUninit<*mut cntk_reader_section>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let section = given(section, "section")?;
        // SAFETY: `path` is NULL, which `utf8` refuses, or has the bytes that `path_length` states; `entries` is NULL, which
        // `inputs` refuses unless `count` is 0, or has `count` elements.
        let (path, entries) =
            unsafe { (text::utf8(path, path_length, "path")?, inputs(entries, count, "entries")?) };
        // SAFETY: the strings of each entry are the caller's, as the struct documents.
        let parts = |entry: &cntk_reader_section_entry| unsafe {
            let key = text::utf8(entry.key, entry.key_length, "key")?;
            Ok((key, text::utf8(entry.text, entry.text_length, key)?, entry.literal != 0))
        };
        let entries = entries.iter().map(parts).collect::<Result<Vec<_>>>()?;
        let mut keys = HashSet::new();
        if let Some((key, ..)) = entries.iter().find(|(key, ..)| !keys.insert(key.to_ascii_lowercase())) {
            let message = format!("The section '{path}' has the key '{key}' more than once.");
            let detail = "One of the values would be lost. Upper and lower case are the same in keys.";
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

/// Frees a section. NULL is allowed. Readers that were opened from it, and sections that have it as parent, stay as they are.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_section_free(section: Option<Box<cntk_reader_section>>) {
    drop(section);
}

/// Gives a section's name in messages: NUL-terminated if it fits into `capacity` bytes, and its length. `text` may be
/// NULL if `capacity` is 0.
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
        // SAFETY: `text` is NULL, which `copy` refuses unless `capacity` is 0, or has that many bytes.
        length.write(unsafe { text::copy(section.path(), text, capacity) }?);
        Ok(())
    })
}

/// Gives the keys of a section with their raw texts, ordered without regard to case: the first `capacity` of them, and
/// their number. Pointers live as long as the section. `entries` may be NULL if `capacity` is 0.
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
        // SAFETY: `entries` is NULL, which `outputs` refuses unless `capacity` is 0, or has that many places.
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

/// Opens the section that a key of this one has as its value, or gives NULL if there is no such key. The caller frees it.
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
        // SAFETY: `key` is NULL, which `utf8` refuses, or has the bytes that `key_length` states.
        let key = unsafe { text::utf8(key, key_length, "key") }?;
        child.write(match section.exists_here(key) {
            true => cntk_reader_section::hand_out(section.child(key)?),
            false => null_mut(),
        });
        Ok(())
    })
}

/// Opens element `index`, from 0, of the list of sections that a key of this one has as its value: `( [ ... ] : [ ... ] )`.
/// Gives NULL past the last one. The caller frees it.
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
        // SAFETY: `key` is NULL, which `utf8` refuses, or has the bytes that `key_length` states.
        let list = section.array_or_empty(unsafe { text::utf8(key, key_length, "key") }?)?;
        let found = list.sections().nth(index).transpose()?;
        element.write(found.map_or(null_mut(), cntk_reader_section::hand_out));
        Ok(())
    })
}

/// Reads a key of a section, or of one around it, as a truth value: 1 or 0. If it is absent, the value is `fallback`.
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
        // SAFETY: `key` is NULL, which `utf8` refuses, or has the bytes that `key_length` states.
        let key = unsafe { text::utf8(key, key_length, "key") }?;
        value.write(section.get_or(key, fallback != 0)?.into());
        Ok(())
    })
}
