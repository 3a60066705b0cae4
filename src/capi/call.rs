//! What every call does around its body: stops panics, checks pointers, hands out errors.

use super::error::cntk_reader_error;
use super::status::cntk_reader_status;
use crate::{Error, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a call and turns its result into a status, handing the error out if the caller wants it.
///
/// # Safety
/// `error` is NULL or may be written.
pub(super) unsafe fn guard(
    error: *mut *mut cntk_reader_error,
    body: impl FnOnce() -> Result<()>,
) -> cntk_reader_status {
    // Unwind safety: what a body may leave half done is inside a reader, whose mutex is poisoned by the panic.
    match catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(from_panic(&*panic))) {
        Ok(()) => cntk_reader_status::CNTK_READER_STATUS_OK,
        Err(failure) => {
            let status = failure.kind().into();
            if !error.is_null() {
                // SAFETY: not NULL, and then writable by this function's contract.
                unsafe { error.write(Box::into_raw(Box::new(cntk_reader_error::new(&failure)))) };
            }
            status
        }
    }
}

/// Runs the body of a call that cannot report failure; a panic is swallowed.
pub(super) fn guard_silently(body: impl FnOnce()) {
    // What a panicking destructor leaves behind is leaked, never used again.
    let _ = catch_unwind(AssertUnwindSafe(body));
}

/// The error that a panic becomes.
fn from_panic(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown cause");
    Error::internal(format!("The library failed, which is a mistake of its own: {text}"))
}

/// A borrowed input.
///
/// # Safety
/// `pointer` is NULL or valid for reading a `T` during `'a`.
pub(super) unsafe fn input<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: by this function's contract.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// A borrowed array; NULL stands for one without elements.
///
/// # Safety
/// `pointer` is NULL or valid for reading `count` elements during `'a`.
pub(super) unsafe fn inputs<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    match count {
        0 => Ok(&[]),
        _ if pointer.is_null() => Err(null(name)),
        // SAFETY: not NULL, and then valid by this function's contract.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer, count) }),
    }
}

/// Where a result goes. Made before the work is done, so that a forgotten output costs nothing; written after it.
pub(super) struct Output<T>(*mut T);

impl<T> Output<T> {
    /// Checks that there is a place for the result.
    ///
    /// # Safety
    /// `pointer` is NULL or may be written until [`Output::set`] returns.
    pub(super) unsafe fn new(pointer: *mut T, name: &str) -> Result<Self> {
        if pointer.is_null() { Err(null(name)) } else { Ok(Output(pointer)) }
    }

    /// Writes the result.
    pub(super) fn set(self, value: T) {
        // SAFETY: checked and promised in `new`. `write` because the place may be uninitialized.
        unsafe { self.0.write(value) };
    }
}

fn null(name: &str) -> Error {
    Error::argument(format!("The argument '{name}' must not be NULL."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capi::error::{cntk_reader_error_free, cntk_reader_error_get_text};
    use std::ptr::null_mut;

    #[test]
    fn a_panic_becomes_an_internal_error() {
        let mut error = null_mut();
        // SAFETY: `error` is a local variable.
        let status = unsafe { guard(&raw mut error, || panic!("number {}", 7)) };
        assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_INTERNAL);
        // SAFETY: `guard` has just written the error.
        let text = unsafe { std::ffi::CStr::from_ptr(cntk_reader_error_get_text(error)) };
        assert!(text.to_string_lossy().contains("number 7"));
        // SAFETY: as above, and freed once.
        unsafe { cntk_reader_error_free(error) };
    }

    #[test]
    fn an_error_that_nobody_wants_is_dropped() {
        // SAFETY: NULL is allowed.
        let status = unsafe { guard(null_mut(), || Err(Error::data("x"))) };
        assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_DATA);
    }
}
