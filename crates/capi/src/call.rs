//! The frame of every call: stops panics, checks arguments, returns errors.
//!
//! Signatures have Rust types for pointers to one object: `Option<&T>` for a borrowed handle,
//! `Option<&mut MaybeUninit<T>>` for the place of a result. They have the representation of a C
//! pointer, with NULL as `None`, so bodies need no `unsafe` for them; a caller that passes anything
//! but NULL or a valid pointer breaks the contract of the signature. A released handle is a valid
//! pointer while its header is kept ([`super::handle`]). Raw pointers remain where the call changes
//! or releases a handle, and where the type does not determine the number of bytes: arrays and
//! strings ([`inputs`], [`super::text`]) and structs that begin with their size
//! ([`super::sized`]). (Handles of `cntk_reader_host.h` have no tags: `Option<Box<T>>` is one that
//! the call consumes.)

use super::error::{ErrorReport, cntk_reader_error};
use super::handle::hand_out;
use super::status::cntk_reader_status;
use cntk_reader_core::{Error, Result};
use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The caller's place for an error object; `None` if the caller does not want one.
pub(crate) type ErrorPlace<'a> = Option<&'a mut MaybeUninit<*mut cntk_reader_error>>;

/// Runs the body of a call and converts its result to a status. An error object goes to `place` if
/// there is one.
pub(crate) fn call(place: ErrorPlace<'_>, body: impl FnOnce() -> Result<()>) -> cntk_reader_status {
    match stop_panics(body) {
        Ok(()) => cntk_reader_status::CNTK_READER_STATUS_OK,
        Err(failure) => {
            if let Some(place) = place {
                place.write(hand_out(Box::new(ErrorReport::new(&failure))));
            }
            failure.kind().into()
        }
    }
}

/// Runs the body of a call that cannot report failure. A panic is swallowed; objects that it leaves
/// unfinished are leaked and never used again.
pub(crate) fn guard_silently(body: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(body));
}

/// Runs a body, converting a panic to an internal error.
pub(crate) fn stop_panics(body: impl FnOnce() -> Result<()>) -> Result<()> {
    // Unwind safety: state that a panic may leave half-updated is inside a reader, whose mutex is
    // poisoned.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(from_panic(&*panic)))
}

fn from_panic(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown cause");
    Error::internal(format!("Internal error (a bug in cntk-reader; please report it): {text}"))
}

/// Checks that a handle, or the place of a result, is not NULL.
pub(crate) fn given<T>(argument: Option<T>, name: &str) -> Result<T> {
    argument.ok_or_else(|| null(name))
}

/// Borrows an input.
///
/// # Safety
/// `pointer` is NULL or valid for reading a `T` during `'a`.
pub(crate) unsafe fn input<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: NULL gives `None`; anything else is readable, by this function's contract.
    given(unsafe { pointer.as_ref() }, name)
}

/// Borrows an array. NULL is allowed if `count` is 0.
///
/// # Safety
/// `pointer` is NULL or valid for reading `count` elements during `'a`.
pub(crate) unsafe fn inputs<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    match count {
        0 => Ok(&[]),
        _ if pointer.is_null() => Err(null(name)),
        _ if count > isize::MAX as usize / size_of::<T>().max(1) => {
            Err(Error::argument(format!("'{name}' cannot have {count} elements: the number is too large.")))
        }
        // SAFETY: not NULL and within `isize::MAX` bytes by the arms above; readable by this
        // function's contract.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer, count) }),
    }
}

/// Borrows an array of outputs. NULL is allowed if `capacity` is 0.
///
/// # Safety
/// `pointer` is NULL or valid for writing `capacity` elements during `'a`, and nothing else refers
/// to them.
pub(crate) unsafe fn outputs<'a, T>(
    pointer: *mut T,
    capacity: usize,
    name: &str,
) -> Result<&'a mut [MaybeUninit<T>]> {
    match capacity {
        0 => Ok(&mut []),
        _ if pointer.is_null() => Err(null(name)),
        _ if capacity > isize::MAX as usize / size_of::<T>().max(1) => Err(Error::argument(format!(
            "'{name}' cannot have room for {capacity} elements: the number is too large."
        ))),
        // SAFETY: as in `inputs`; `MaybeUninit` elements need not be initialized.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), capacity) }),
    }
}

fn null(name: &str) -> Error {
    Error::argument(format!("The argument '{name}' must not be NULL."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{cntk_reader_error_free, cntk_reader_error_get_text};

    #[test]
    fn panic_becomes_an_internal_error() {
        let mut error = MaybeUninit::uninit();
        let status = call(Some(&mut error), || panic!("number {}", 7));
        assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_INTERNAL);
        // SAFETY: the call failed, so it has written an error; its text lives until it is freed.
        unsafe {
            let error = error.assume_init();
            let text = std::ffi::CStr::from_ptr(cntk_reader_error_get_text(error.as_ref()));
            assert!(text.to_string_lossy().contains("number 7"));
            cntk_reader_error_free(error);
        }
    }

    #[test]
    fn unwanted_error_is_dropped() {
        let status = call(None, || Err(Error::data("x")));
        assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_DATA);
    }

    #[test]
    fn impossible_counts_are_refused() {
        let number = 1u64;
        // SAFETY: refused before any element is read.
        assert!(unsafe { inputs(&raw const number, usize::MAX, "numbers") }.is_err());
        // SAFETY: as above.
        assert!(unsafe { outputs((&raw const number).cast_mut(), usize::MAX / 8, "numbers") }.is_err());
    }
}
