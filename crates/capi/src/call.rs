//! What every call does around its body: stops panics, checks arguments, hands out errors.
//!
//! Pointers to one object stand in the signatures as what they are: `Option<&T>` for a handle that a call looks at,
//! `Option<Box<T>>` for one that it takes over, `Option<&mut MaybeUninit<T>>` for the place of a result. The compiler
//! gives them the representation of a C pointer, NULL is `None`, and bodies need no `unsafe` for them: a caller who passes
//! anything but NULL or a valid pointer breaks the contract of the signature. Raw pointers are left where the type does
//! not say how many bytes there are: arrays and strings ([`inputs`], [`super::text`]) and structs that begin with their
//! size ([`super::sized`]).

use super::error::cntk_reader_error;
use super::status::cntk_reader_status;
use cntk_reader_core::{Error, Result};
use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where a call puts its error object: NULL if the caller does not want one.
pub(crate) type ErrorPlace<'a> = Option<&'a mut MaybeUninit<*mut cntk_reader_error>>;

/// Runs the body of a call and turns its result into a status. The error object goes to `place`, if there is one.
pub(crate) fn call(place: ErrorPlace<'_>, body: impl FnOnce() -> Result<()>) -> cntk_reader_status {
    match stop_panics(body) {
        Ok(()) => cntk_reader_status::CNTK_READER_STATUS_OK,
        Err(failure) => {
            if let Some(place) = place {
                place.write(Box::into_raw(Box::new(cntk_reader_error::new(&failure))));
            }
            failure.kind().into()
        }
    }
}

/// Runs the body of a call that cannot report failure. What a panic leaves unfinished is leaked and not used again.
pub(crate) fn guard_silently(body: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(body));
}

/// The result of a body; a panic is an internal error.
pub(crate) fn stop_panics(body: impl FnOnce() -> Result<()>) -> Result<()> {
    // Unwind safety: what a body may leave half done is inside a reader, whose mutex the panic poisons.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(from_panic(&*panic)))
}

fn from_panic(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown cause");
    Error::internal(format!("The library failed, which is a mistake of its own: {text}"))
}

/// An argument that must not be NULL: a handle, or the place of a result.
pub(crate) fn given<T>(argument: Option<T>, name: &str) -> Result<T> {
    argument.ok_or_else(|| null(name))
}

/// A borrowed input.
///
/// # Safety
/// `pointer` is NULL or valid for reading a `T` during `'a`.
pub(crate) unsafe fn input<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: NULL gives `None`; anything else is readable, by this function's contract.
    given(unsafe { pointer.as_ref() }, name)
}

/// A borrowed array; NULL stands for one without elements.
///
/// # Safety
/// `pointer` is NULL or valid for reading `count` elements during `'a`.
pub(crate) unsafe fn inputs<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    match count {
        0 => Ok(&[]),
        _ if pointer.is_null() => Err(null(name)),
        _ if count > isize::MAX as usize / size_of::<T>().max(1) => {
            Err(Error::argument(format!("The number of elements of '{name}', {count}, is impossible.")))
        }
        // SAFETY: not NULL by the arm above, `count` elements are no more bytes than memory can have by the last one, and
        // they are readable by this function's contract.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer, count) }),
    }
}

/// The places for a list of results, as many as the caller has; NULL is allowed if that is none.
///
/// # Safety
/// `pointer` is NULL or valid for writing `capacity` elements during `'a`, and nothing else refers to them.
pub(crate) unsafe fn outputs<'a, T>(
    pointer: *mut T,
    capacity: usize,
    name: &str,
) -> Result<&'a mut [MaybeUninit<T>]> {
    match capacity {
        0 => Ok(&mut []),
        _ if pointer.is_null() => Err(null(name)),
        _ if capacity > isize::MAX as usize / size_of::<T>().max(1) => {
            Err(Error::argument(format!("The capacity of '{name}', {capacity}, is impossible.")))
        }
        // SAFETY: as in `inputs`; elements need not be initialized, because they are `MaybeUninit`.
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
    fn a_panic_becomes_an_internal_error() {
        let mut error = MaybeUninit::uninit();
        let status = call(Some(&mut error), || panic!("number {}", 7));
        assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_INTERNAL);
        // SAFETY: the call failed, so it has written a box's pointer, which becomes a box once.
        let error = unsafe { Box::from_raw(error.assume_init()) };
        // SAFETY: the text is a string of the error, which lives on.
        let text = unsafe { std::ffi::CStr::from_ptr(cntk_reader_error_get_text(Some(&error))) };
        assert!(text.to_string_lossy().contains("number 7"));
        cntk_reader_error_free(Some(error));
    }

    #[test]
    fn an_error_that_is_not_wanted_is_dropped() {
        let status = call(None, || Err(Error::data("x")));
        assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_DATA);
    }

    #[test]
    fn impossible_counts_are_refused() {
        let number = 1u64;
        // SAFETY: refused before anything is read.
        assert!(unsafe { inputs(&raw const number, usize::MAX, "numbers") }.is_err());
        // SAFETY: as above.
        assert!(unsafe { outputs((&raw const number).cast_mut(), usize::MAX / 8, "numbers") }.is_err());
    }
}
