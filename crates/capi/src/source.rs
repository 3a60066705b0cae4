//! What a reader is opened from.

use super::call::{call, given, inputs};
use super::canceller::cntk_reader_canceller;
use super::error::cntk_reader_error;
use super::options::cntk_reader_options;
use super::reader::cntk_reader;
use super::sized::{self, Sized};
use super::status::cntk_reader_status;
use super::text;
use super::user_deserializer::{Users, cntk_reader_user_deserializer};
use super::user_transform::{Transforms, cntk_reader_user_transform};
use ::cntk_reader::language::{Config, Others};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader;
use std::ffi::c_char;
use std::mem::{MaybeUninit, offset_of};
use std::path::Path;
use std::ptr::null;

/// The interface in which a reader's options were written: messages call options what it calls them.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_front_end {
    /// A configuration in CNTK's language.
    CNTK_READER_FRONT_END_CONFIGURATION = 0,
    /// The Rust crate.
    CNTK_READER_FRONT_END_RUST = 1,
    /// The C++ header's ReaderOptions and deserializers.
    CNTK_READER_FRONT_END_CPP = 2,
    /// The Python package's classes.
    CNTK_READER_FRONT_END_PYTHON = 3,
}

/// What a reader is opened from: a configuration, and deserializers of the user's own. Initialize with
/// CNTK_READER_SOURCE_INIT, and set exactly one of `text`, `file` and `options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_source {
    /// sizeof(cntk_reader_source).
    pub struct_size: usize,
    /// The text of a configuration in CNTK's configuration language, UTF-8, or NULL. Relative paths in it begin at the
    /// process's working folder.
    pub text: *const c_char,
    /// Bytes of the text, or CNTK_READER_NUL_TERMINATED.
    pub text_length: usize,
    /// Path of a configuration file, as the operating system has it, or NULL. Its includes are followed.
    pub file: *const c_char,
    /// Bytes of the path, or CNTK_READER_NUL_TERMINATED.
    pub file_length: usize,
    /// Options of a reader and its deserializers, or NULL. They are copied.
    pub options: *const cntk_reader_options,
    /// Deserializers of the user's own, or NULL. The tables are copied.
    ///
    /// Each has an element in the configuration's `deserializers`, with its name as `type` and no `module`. If there is
    /// only one, the configuration need not have `deserializers`, and may be the text "".
    pub deserializers: *const *const cntk_reader_user_deserializer,
    /// Their number.
    pub deserializer_count: usize,
    /// Transforms of the user's own, or NULL. The tables are copied. An element of `transforms` in the configuration has the name of
    /// one as `type`, and no `module`.
    pub transforms: *const *const cntk_reader_user_transform,
    /// Their number.
    pub transform_count: usize,
    /// Ends opening and the calls of the reader, or NULL. It may be freed before the reader.
    pub canceller: *const cntk_reader_canceller,
    /// The name of the reader to open of those that the configuration has, UTF-8: the keys that lead to its section, such as
    /// "train.reader". NULL: its only one.
    pub reader: *const c_char,
    /// Bytes of the name, or CNTK_READER_NUL_TERMINATED.
    pub reader_length: usize,
}

// SAFETY: integers, pointers and nullable functions; each of them may have all bits zero.
unsafe impl Sized for cntk_reader_source {
    const NAME: &'static str = "cntk_reader_source";
    const LEAST: usize = offset_of!(cntk_reader_source, transforms);
}

impl Default for cntk_reader_source {
    fn default() -> Self {
        cntk_reader_source {
            struct_size: size_of::<Self>(),
            text: null(),
            text_length: text::NUL_TERMINATED,
            file: null(),
            file_length: text::NUL_TERMINATED,
            options: null(),
            deserializers: null(),
            deserializer_count: 0,
            transforms: null(),
            transform_count: 0,
            canceller: null(),
            reader: null(),
            reader_length: text::NUL_TERMINATED,
        }
    }
}

impl cntk_reader_source {
    /// The configuration of the reader that was chosen.
    ///
    /// # Safety
    /// Each of `text`, `file`, `options` and `reader` is NULL, or readable as its length or its
    /// type says.
    unsafe fn config(&self) -> Result<Config> {
        // SAFETY: this function's contract.
        let config = unsafe { self.whole_config() }?;
        if self.reader.is_null() {
            return Ok(config);
        }
        // SAFETY: `reader` is not NULL, so it has the bytes that `reader_length` states, by this function's contract.
        config.reader(unsafe { text::utf8(self.reader, self.reader_length, "reader") }?)
    }

    /// The configuration, whichever of the three members it is in.
    ///
    /// # Safety
    /// Each of `text`, `file` and `options` is NULL, or readable as its length or its type says.
    unsafe fn whole_config(&self) -> Result<Config> {
        let given = [self.text.is_null(), self.file.is_null(), self.options.is_null()];
        match given {
            [false, true, true] => {
                // SAFETY: `text` is not NULL, so it has the bytes that `text_length` states, by this function's contract.
                Config::from_text(unsafe { text::utf8(self.text, self.text_length, "text") }?)
            }
            [true, false, true] => {
                // SAFETY: `file` is not NULL, so it has the bytes that `file_length` states, by this function's contract.
                Config::from_file(to_path(unsafe { text::bytes(self.file, self.file_length, "file") }?)?)
            }
            [true, true, false] => {
                // SAFETY: `options` is not NULL, so it is of this library, by this function's contract.
                let cntk_reader_options(values, front_end) = unsafe { &*self.options };
                Ok(Config::of_values(values, *front_end))
            }
            given => Err(Error::argument(format!(
                "A cntk_reader_source has {} of the members 'text', 'file' and 'options'; set exactly one of \
                 them. (For deserializers of your own without a configuration, set text to \"\".)",
                given.into_iter().filter(|is_null| !is_null).count()
            ))),
        }
    }

    /// Opens the reader.
    ///
    /// # Safety
    /// All members are as the struct documents.
    unsafe fn open(&self) -> Result<*mut cntk_reader> {
        // SAFETY: this function's contract.
        let config = unsafe { self.config() }?;
        // SAFETY: as above: `deserializers` has `deserializer_count` elements, each of which is a table.
        let users =
            unsafe { Users::read(inputs(self.deserializers, self.deserializer_count, "deserializers")?) }?;
        // SAFETY: as above: `transforms` has `transform_count` elements, each of which is a table.
        let transforms =
            unsafe { Transforms::read(inputs(self.transforms, self.transform_count, "transforms")?) }?;
        let others = Others { users: &users.types(), transforms: &transforms.names(), ..Others::default() };
        // SAFETY: as above: `canceller` is NULL or a canceller. It is cloned, so that it may be freed as soon as a call of it is over.
        let canceller = unsafe { self.canceller.as_ref() }.map(|cntk_reader_canceller(own)| own.clone());
        let settings = config.settings(others)?;
        let reader = cntk_reader::open(
            &settings,
            &reader::Others {
                registered: users.registered(),
                transforms: transforms.registered(),
                canceller: canceller.as_ref(),
                ..reader::Others::default()
            },
        )
        .map_err(|error| error.in_words_of(settings.front_end))?;
        users.take_userdata();
        transforms.take_userdata();
        Ok(reader)
    }
}

/// The front end by its number: C may pass any.
pub(super) fn front_end(number: u32) -> Result<FrontEnd> {
    match number {
        0 => Ok(FrontEnd::Configuration),
        1 => Ok(FrontEnd::Rust),
        2 => Ok(FrontEnd::Cpp),
        3 => Ok(FrontEnd::Python),
        _ => Err(Error::argument(format!("{number} is not a cntk_reader_front_end."))),
    }
}

#[cfg(unix)]
pub(super) fn to_path(bytes: &[u8]) -> Result<&Path> {
    use std::os::unix::ffi::OsStrExt;
    Ok(Path::new(std::ffi::OsStr::from_bytes(bytes)))
}

#[cfg(not(unix))]
pub(super) fn to_path(bytes: &[u8]) -> Result<&Path> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::argument("The path is not UTF-8."))?;
    Ok(Path::new(text))
}

/// Opens a reader. Opens and indexes its files, which may take a while for large ones, and reads no data yet. The caller
/// owns the reader, and frees it with cntk_reader_free. Of the source nothing is kept but the callbacks and the userdata
/// of its deserializers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_open(
    source: *const cntk_reader_source,
    reader: Option<&mut MaybeUninit<*mut cntk_reader>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let reader = given(reader, "reader")?;
        // SAFETY: `source` is NULL, which `read` refuses, or the caller's struct with its size in the first member.
        let source = unsafe { sized::read(source, cntk_reader_source::default()) }?;
        // SAFETY: the caller fills the members in as the struct documents, or leaves them as CNTK_READER_SOURCE_INIT has
        // them.
        reader.write(unsafe { source.open() }?);
        Ok(())
    })
}

/// Gives the names of the readers that a configuration has in its sections, one in each line: those that the member `reader` of a
/// source takes. NUL-terminated if they fit into `capacity` bytes, and their length. `text` may be NULL if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_source_list_readers(
    source: *const cntk_reader_source,
    text: *mut c_char,
    capacity: usize,
    length: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let length = given(length, "length")?;
        // SAFETY: `source` is NULL, which `read` refuses, or the caller's struct with its size in the first member.
        let source = unsafe { sized::read(source, cntk_reader_source::default()) }?;
        // SAFETY: the caller fills the members in as the struct documents, or leaves them as CNTK_READER_SOURCE_INIT has them.
        let names = unsafe { source.whole_config() }?.readers().join("\n");
        // SAFETY: `text` is NULL, which `copy` refuses unless `capacity` is 0, or has that many bytes.
        length.write(unsafe { text::copy(&names, text, capacity) }?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_one_description() {
        let of = |source: cntk_reader_source| {
            // SAFETY: the strings are literals with a NUL, the lengths say so, and the options are of this library.
            unsafe { source.whole_config() }.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let options =
            cntk_reader_options(::cntk_reader::language::values::Values::default(), FrontEnd::Python);
        let source = cntk_reader_source::default();
        assert_eq!(of(cntk_reader_source { options: &raw const options, ..source }), "");
        for other in [
            cntk_reader_source { file: c"a.cntk".as_ptr(), ..source },
            cntk_reader_source { text: c"".as_ptr(), ..source },
        ] {
            let two = of(cntk_reader_source { options: &raw const options, ..other });
            assert!(two.contains("has 2 of the members"), "{two}");
        }
        let unknown = front_end(4).expect_err("no front end").to_string();
        assert!(unknown.contains("4 is not a cntk_reader_front_end"), "{unknown}");
    }
}
