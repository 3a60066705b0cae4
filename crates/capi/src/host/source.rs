//! The source of a host's reader.

use crate::call::{call, given};
use crate::error::cntk_reader_error;
use crate::handle::hand_out;
use crate::host::factory::{Maker, cntk_reader_make_deserializer};
use crate::host::section::{self, cntk_reader_section};
use crate::reader::{OpenReader, cntk_reader};
use crate::sized::{self, Sized};
use crate::status::cntk_reader_status;
use ::cntk_reader::language::{Config, ExtensionTypes};
use cntk_reader_core::format::user::Factory;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// The source of a host's reader: a section of a configuration that the host has parsed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_host_source {
    /// sizeof(cntk_reader_host_source).
    pub struct_size: usize,
    /// The section, which is copied.
    pub section: *const cntk_reader_section,
    /// The CNTK reader that the section describes: a cntk_reader_section_kind.
    pub section_kind: u32,
    /// The release of CNTK that the section is for: a cntk_reader_release.
    pub release: u32,
    /// Creates the deserializers that this library does not have, and the image deserializers with
    /// transforms whose `module` this library does not have; or NULL. Called in the configuration's
    /// order while the reader is opened.
    pub make: cntk_reader_make_deserializer,
    /// The first argument of `make`.
    pub userdata: *mut c_void,
}

// SAFETY: `repr(C)`, begins with a `usize`, and has only integers, pointers and a nullable function
// pointer, for which zero is valid.
unsafe impl Sized for cntk_reader_host_source {
    const NAME: &'static str = "cntk_reader_host_source";
    const LEAST: usize = size_of::<Self>();
}

impl Default for cntk_reader_host_source {
    fn default() -> Self {
        cntk_reader_host_source {
            struct_size: size_of::<Self>(),
            section: null(),
            section_kind: 0,
            release: 0,
            make: None,
            userdata: null_mut(),
        }
    }
}

impl cntk_reader_host_source {
    /// Opens the reader.
    ///
    /// # Safety
    /// All members are as documented in the struct.
    unsafe fn open(&self) -> Result<Box<OpenReader>> {
        // SAFETY: `section` is NULL or a section of this library, by this function's contract.
        let Some(cntk_reader_section(section)) = (unsafe { self.section.as_ref() }) else {
            return Err(Error::argument("The member 'section' of a cntk_reader_host_source is NULL."));
        };
        let kind = section::kind(self.section_kind)?;
        let config = Config::from_reader_section(section, kind, section::release(self.release)?);
        let maker = self.make.map(|make| Maker::new(make, self.userdata));
        let settings =
            config.settings(ExtensionTypes { foreign: maker.is_some(), ..ExtensionTypes::default() })?;
        let others = reader::Extensions {
            factory: maker.as_ref().map(|maker| maker as &dyn Factory),
            ..reader::Extensions::default()
        };
        OpenReader::open(&settings, &others).map_err(|error| error.in_words_of(settings.front_end))
    }
}

/// Opens a reader for a host, like cntk_reader_open for a program. The caller owns the reader and
/// frees it with cntk_reader_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_host_open(
    source: *const cntk_reader_host_source,
    reader: Option<&mut MaybeUninit<*mut cntk_reader>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let reader = given(reader, "reader")?;
        // SAFETY: `source` is NULL, which `read` refuses, or the caller's struct with its size in
        // the first member.
        let source = unsafe { sized::read(source, cntk_reader_host_source::default()) }?;
        // SAFETY: the caller sets the members as the struct documents.
        reader.write(hand_out(unsafe { source.open() }?));
        Ok(())
    })
}
