//! Deserializers of other modules, which a factory creates while a reader is opened.

use crate::failure::cntk_reader_failure;
use crate::host::keys::cntk_reader_keys;
use crate::host::section::cntk_reader_section;
use crate::sized;
use crate::user_deserializer::{DeserializerTable, NO_TABLE, User, cntk_reader_user_deserializer};
use ::cntk_reader::language::Section;
use cntk_reader_core::format::user::{Factory, Request, UserDeserializer};
use cntk_reader_core::runtime::exit;
use cntk_reader_core::{Error, Result};
use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::sync::Arc;

/// A request to a factory. Its pointers are valid until the callback returns.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_request {
    /// sizeof(cntk_reader_request), set by the library.
    pub struct_size: usize,
    /// The deserializer's section, with the keys that the reader adds: `frameMode`, `precision`,
    /// `traceLevel`.
    pub section: *const cntk_reader_section,
    /// Its `type`: UTF-8, `type_length` bytes.
    pub type_name: *const c_char,
    /// Bytes of the type.
    pub type_length: usize,
    /// The mapping of keys to numbers in this reader.
    pub keys: *const cntk_reader_keys,
    /// 1 for the reader's first deserializer, which determines chunks and order; else 0.
    pub is_primary: u32,
    /// 1 if `list_sequences` must list its sequences (or `find_sequence` find them); 0 if the
    /// section says `composable = false`, and `load_chunk` lists them.
    pub is_composable: u32,
}

/// Creates a deserializer: fills in a table whose size is set and whose other members are zero.
/// Returns 0, or a nonzero number on failure.
pub type cntk_reader_make_deserializer = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        request: *const cntk_reader_request,
        made: *mut cntk_reader_user_deserializer,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// The host's factory.
pub(crate) struct Maker {
    userdata: *mut c_void,
    make: unsafe extern "C-unwind" fn(
        *mut c_void,
        *const cntk_reader_request,
        *mut cntk_reader_user_deserializer,
        *mut cntk_reader_failure,
    ) -> i32,
}

impl Maker {
    /// `make` may only be called on this thread, during the call that it was passed to.
    pub(crate) fn new(
        make: unsafe extern "C-unwind" fn(
            *mut c_void,
            *const cntk_reader_request,
            *mut cntk_reader_user_deserializer,
            *mut cntk_reader_failure,
        ) -> i32,
        userdata: *mut c_void,
    ) -> Maker {
        Maker { userdata, make }
    }
}

impl Factory for Maker {
    fn make(&self, request: &Request<'_>) -> Result<Arc<dyn UserDeserializer>> {
        let section = request.description.get::<Section>();
        let section =
            section.ok_or_else(|| Error::internal("A configuration describes deserializers by sections."))?;
        let section = cntk_reader_section(section.clone());
        let keys = Arc::new(cntk_reader_keys(Arc::clone(request.corpus)));
        let asked = cntk_reader_request {
            struct_size: size_of::<cntk_reader_request>(),
            section: &raw const section,
            type_name: request.name.as_ptr().cast(),
            type_length: request.name.len(),
            keys: Arc::as_ptr(&keys),
            is_primary: request.is_primary.into(),
            is_composable: request.is_composable.into(),
        };
        let (mut made, mut failure) = (NO_TABLE, cntk_reader_failure::default());
        // SAFETY: the callback with its own userdata, on the thread and during the call that it was
        // passed to, because a `Maker` is not `Send`; the other pointers lead to local variables.
        let status = exit::foreign(|| unsafe {
            (self.make)(self.userdata, &raw const asked, &raw mut made, &raw mut failure)
        });
        failure.check("make", status)?;
        // SAFETY: `made` is a local variable with its size set; the header requires that everything
        // the callback wrote is consistent and valid until this call returns.
        let table = unsafe { DeserializerTable::new(sized::read(&raw const made, NO_TABLE)?, true, true) }?;
        if request.is_composable {
            table.check_joined(request.is_primary)?;
        }
        Ok(Arc::new(User(Arc::new(table))))
    }
}
