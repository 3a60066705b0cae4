//! Deserializers of other modules, which a factory makes while a reader is opened.

use crate::failure::cntk_reader_failure;
use crate::host::keys::cntk_reader_keys;
use crate::host::section::cntk_reader_section;
use crate::sized;
use crate::user_deserializer::{NO_TABLE, Table, User, cntk_reader_user_deserializer};
use ::cntk_reader::language::Section;
use cntk_reader_core::format::user::{Factory, Request, UserDeserializer};
use cntk_reader_core::runtime::exit;
use cntk_reader_core::{Error, Result};
use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::sync::Arc;

/// What a factory is to make. All of it lives until the callback returns.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_request {
    /// sizeof(cntk_reader_request), set by the library.
    pub struct_size: usize,
    /// The deserializer's section, with the keys that the reader puts into it: `frameMode`, `precision`, `traceLevel`.
    pub section: *const cntk_reader_section,
    /// Its `type`: UTF-8, `type_length` bytes.
    pub type_name: *const c_char,
    /// Bytes of the type.
    pub type_length: usize,
    /// How keys become numbers in this reader.
    pub keys: *const cntk_reader_keys,
    /// 1 if it is the reader's first deserializer, whose chunks and order count; else 0.
    pub is_primary: u32,
    /// 1 if list_sequences has to list its sequences (or find_sequence to find them), 0 if the section says
    /// `composable = false`: load_chunk lists them then.
    pub is_composable: u32,
}

/// Makes a deserializer: fills a table in, whose size is set and whose other members are zero. Returns 0, or another number
/// if it fails.
pub type cntk_reader_make_deserializer = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        request: *const cntk_reader_request,
        made: *mut cntk_reader_user_deserializer,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// The user's factory.
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
    /// The callback has to be called on this thread, while the call that it was given to has not returned.
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
        // SAFETY: the callback with the userdata that it was given with, on the thread and during the call that it was
        // given to, since a `Maker` is not sent anywhere; the other pointers lead to variables of this function.
        let status = exit::foreign(|| unsafe {
            (self.make)(self.userdata, &raw const asked, &raw mut made, &raw mut failure)
        });
        failure.check("make", status)?;
        // SAFETY: `made` is a variable of this function with its size set; the header demands that what the callback
        // wrote fits together and lives until this call returns.
        let table = unsafe { Table::new(sized::read(&raw const made, NO_TABLE)?, true, true) }?;
        if request.is_composable {
            table.check_joined(request.is_primary)?;
        }
        Ok(Arc::new(User(Arc::new(table))))
    }
}
