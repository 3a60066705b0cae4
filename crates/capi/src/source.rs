//! The source of a reader: a configuration and user-defined components.

use super::call::{call, given, inputs};
use super::canceller::cntk_reader_canceller;
use super::error::cntk_reader_error;
use super::handle::{self, Place};
use super::options::{Options, cntk_reader_options};
use super::reader::{OpenReader, cntk_reader};
use super::sized::{self, Sized};
use super::status::cntk_reader_status;
use super::text;
use super::user_deserializer::{Users, cntk_reader_user_deserializer};
use super::user_transform::{Transforms, cntk_reader_user_transform};
use ::cntk_reader::language::{Config, ExtensionTypes};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::{Error, Result, system};
use cntk_reader_engine::reader;
use std::ffi::c_char;
use std::mem::{MaybeUninit, offset_of};
use std::path::PathBuf;
use std::ptr::null;

/// The interface in which a reader's options were written. Messages use its names for options.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_front_end {
    /// A configuration in CNTK's language.
    CNTK_READER_FRONT_END_CONFIGURATION = 0,
    /// The Rust crate.
    CNTK_READER_FRONT_END_RUST = 1,
    /// The classes of cntk_reader.hpp.
    CNTK_READER_FRONT_END_CPP = 2,
    /// The classes of the Python package.
    CNTK_READER_FRONT_END_PYTHON = 3,
}

/// The source of a reader: a configuration, and user-defined deserializers and transforms.
/// Initialize with CNTK_READER_SOURCE_INIT, and set exactly one of `text`, `file` and `options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_source {
    /// sizeof(cntk_reader_source).
    pub struct_size: usize,
    /// Text of a configuration in CNTK's configuration language, UTF-8, or NULL. Relative paths in
    /// it are resolved against the current directory of the process.
    pub text: *const c_char,
    /// Bytes of the text, or CNTK_READER_NUL_TERMINATED.
    pub text_length: usize,
    /// Path of a configuration file, in the operating system's encoding, or NULL. Its includes are
    /// followed.
    pub file: *const c_char,
    /// Bytes of the path, or CNTK_READER_NUL_TERMINATED.
    pub file_length: usize,
    /// Options of a reader and its deserializers, or NULL. They are copied.
    pub options: *const cntk_reader_options,
    /// User-defined deserializers, or NULL. The tables are copied.
    ///
    /// An element of the configuration's `deserializers` selects one by its name as `type`, without
    /// a `module`. With a single user-defined deserializer, `deserializers` may be omitted, and the
    /// configuration may be the empty text "".
    pub deserializers: *const *const cntk_reader_user_deserializer,
    /// Number of them.
    pub deserializer_count: usize,
    /// User-defined transforms, or NULL. The tables are copied. An element of the configuration's
    /// `transforms` selects one by its name as `type`, without a `module`.
    pub transforms: *const *const cntk_reader_user_transform,
    /// Number of them.
    pub transform_count: usize,
    /// Cancels the opening and later calls of the reader, or NULL. It may be freed before the
    /// reader.
    pub canceller: *const cntk_reader_canceller,
    /// Selects a reader if the configuration has several, UTF-8: the keys that lead to its section,
    /// such as "train.reader". NULL: the only one.
    pub reader: *const c_char,
    /// Bytes of the name, or CNTK_READER_NUL_TERMINATED.
    pub reader_length: usize,
}

// SAFETY: `repr(C)`, begins with a `usize`, and has only integers and pointers, for which zero is
// valid.
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
    /// Returns the configuration of the selected reader.
    ///
    /// # Safety
    /// Each of `text`, `file`, `options` and `reader` is NULL or valid for its length or type.
    unsafe fn config(&self) -> Result<Config> {
        // SAFETY: this function's contract.
        let config = unsafe { self.whole_config() }?;
        if self.reader.is_null() {
            return Ok(config);
        }
        // SAFETY: `reader` is not NULL, so it has `reader_length` bytes or ends with a NUL, by this
        // function's contract.
        config.reader(unsafe { text::utf8(self.reader, self.reader_length, "reader") }?)
    }

    /// Returns the whole configuration from `text`, `file` or `options`.
    ///
    /// # Safety
    /// Each of `text`, `file` and `options` is NULL or valid for its length or type.
    unsafe fn whole_config(&self) -> Result<Config> {
        let given = [self.text.is_null(), self.file.is_null(), self.options.is_null()];
        match given {
            [false, true, true] => {
                // SAFETY: `text` is not NULL, so it has `text_length` bytes or ends with a NUL, by
                // this function's contract.
                Config::from_text(unsafe { text::utf8(self.text, self.text_length, "text") }?)
            }
            [true, false, true] => {
                // SAFETY: `file` is not NULL, so it has `file_length` bytes or ends with a NUL, by
                // this function's contract.
                let path = unsafe { text::bytes(self.file, self.file_length, "file") }?;
                if self.file_length == 0 {
                    return Err(Error::argument("'file_length' of the source is 0.").with_detail(
                        "Expected the length of 'file', or CNTK_READER_NUL_TERMINATED, which \
                         CNTK_READER_SOURCE_INIT sets.",
                    ));
                }
                Config::from_file(to_path(path))
            }
            [true, true, false] => {
                // SAFETY: `options` is not NULL, so it is a handle, by this function's contract.
                let Options(values, front_end) =
                    handle::object_of(unsafe { self.options.as_ref() }, member("options"))?;
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
    /// All members are as documented in the struct.
    unsafe fn open(&self) -> Result<Box<OpenReader>> {
        // SAFETY: this function's contract.
        let config = unsafe { self.config() }?;
        // SAFETY: as above: `deserializers` has `deserializer_count` elements, each of which is a
        // table.
        let users =
            unsafe { Users::read(inputs(self.deserializers, self.deserializer_count, "deserializers")?) }?;
        // SAFETY: as above: `transforms` has `transform_count` elements, each of which is a table.
        let transforms =
            unsafe { Transforms::read(inputs(self.transforms, self.transform_count, "transforms")?) }?;
        let others = ExtensionTypes {
            users: &users.types(),
            transforms: &transforms.names(),
            ..ExtensionTypes::default()
        };
        // SAFETY: as above: `canceller` is NULL or a handle. It is cloned, so the caller may free
        // it during later calls of the reader.
        let canceller = match unsafe { self.canceller.as_ref() } {
            None => None,
            canceller => Some(handle::object_of(canceller, member("canceller"))?.clone()),
        };
        let settings = config.settings(others)?;
        let reader = OpenReader::open(
            &settings,
            &reader::Extensions {
                registered: users.registered(),
                transforms: transforms.registered(),
                canceller: canceller.as_ref(),
                ..reader::Extensions::default()
            },
        )
        .map_err(|error| error.in_words_of(settings.front_end))?;
        users.take_userdata();
        transforms.take_userdata();
        Ok(reader)
    }
}

/// A member of a source, for messages about its handle.
fn member(name: &'static str) -> Place {
    Place::Member { of: "cntk_reader_source", name }
}

/// Parses a cntk_reader_front_end, which C callers may set to any number.
pub(super) fn front_end(number: u32) -> Result<FrontEnd> {
    match number {
        0 => Ok(FrontEnd::Configuration),
        1 => Ok(FrontEnd::Rust),
        2 => Ok(FrontEnd::Cpp),
        3 => Ok(FrontEnd::Python),
        _ => Err(Error::argument(format!("{number} is not a cntk_reader_front_end."))),
    }
}

/// Returns the path that a program has given as bytes, UTF-8 on Windows.
pub(super) fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(system::path_from_bytes(bytes).into_owned())
}

/// Opens a reader. Its files are opened and indexed, which may take a while for large ones; no data
/// are read yet. The caller owns the reader and frees it with cntk_reader_free. The library keeps
/// nothing of `source` except callbacks and their userdata.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_open(
    source: *const cntk_reader_source,
    reader: Option<&mut MaybeUninit<*mut cntk_reader>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let reader = given(reader, "reader")?;
        // SAFETY: `source` is NULL, which `read` refuses, or the caller's struct with its size in
        // the first member.
        let source = unsafe { sized::read(source, cntk_reader_source::default()) }?;
        // SAFETY: the caller sets the members as the struct documents, or leaves them as
        // CNTK_READER_SOURCE_INIT sets them.
        reader.write(handle::hand_out(unsafe { source.open() }?));
        Ok(())
    })
}

/// Writes the names of the readers in a configuration, one per line, as the member `reader` of a
/// source takes them. They are NUL-terminated if they fit into `capacity` bytes; `length` is set to
/// their full length. `text` may be NULL if `capacity` is 0.
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
        // SAFETY: `source` is NULL, which `read` refuses, or the caller's struct with its size in
        // the first member.
        let source = unsafe { sized::read(source, cntk_reader_source::default()) }?;
        // SAFETY: the caller sets the members as the struct documents, or leaves them as
        // CNTK_READER_SOURCE_INIT sets them.
        let names = unsafe { source.whole_config() }?.readers().join("\n");
        // SAFETY: `text` is NULL, which `copy` refuses unless `capacity` is 0, or has that many
        // bytes.
        length.write(unsafe { text::copy(&names, text, capacity) }?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::options::cntk_reader_options_free;
    use super::*;

    #[test]
    fn source_needs_exactly_one_configuration() {
        let of = |source: cntk_reader_source| {
            // SAFETY: the strings are literals with a NUL, the lengths say so, and the options are
            // of this library.
            unsafe { source.whole_config() }.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let values = ::cntk_reader::language::values::Values::default();
        let options = handle::hand_out::<cntk_reader_options>(Box::new(Options(values, FrontEnd::Python)));
        let source = cntk_reader_source::default();
        assert_eq!(of(cntk_reader_source { options, ..source }), "");
        for other in [
            cntk_reader_source { file: c"a.cntk".as_ptr(), ..source },
            cntk_reader_source { text: c"".as_ptr(), ..source },
        ] {
            let two = of(cntk_reader_source { options, ..other });
            assert!(two.contains("has 2 of the members"), "{two}");
        }
        // SAFETY: made above, and released once.
        unsafe { cntk_reader_options_free(options) };
        let released = of(cntk_reader_source { options, ..source });
        let expected = "The member 'options' of cntk_reader_source is a released cntk_reader_options.";
        assert!(released.starts_with(expected), "{released}");
        let zeroed = of(cntk_reader_source { file: c"a.cntk".as_ptr(), file_length: 0, ..source });
        assert!(zeroed.starts_with("'file_length' of the source is 0."), "{zeroed}");
        let empty = of(cntk_reader_source { file: c"".as_ptr(), ..source });
        assert!(empty.contains("path of the configuration file is empty"), "{empty}");
        let unknown = front_end(4).expect_err("no front end").to_string();
        assert!(unknown.contains("4 is not a cntk_reader_front_end"), "{unknown}");
    }
}
