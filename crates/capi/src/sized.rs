//! Structs that begin with their size, so that they can grow without breaking older callers or
//! libraries.

use cntk_reader_core::{Error, Result};
use std::mem::size_of;

/// A struct whose first member is its size in bytes as the caller compiled it.
///
/// # Safety
/// The type is `repr(C)`, its first member is a `usize`, and every other member is valid when
/// zeroed.
pub(crate) unsafe trait Sized: Copy {
    /// The struct's name, for messages.
    const NAME: &'static str;
    /// Its size when it was first released: the smallest size that callers may set. A struct that
    /// grows must keep this.
    const LEAST: usize = size_of::<Self>();
}

/// Reads an input struct. Members beyond the caller's size keep their values from `defaults`; bytes
/// beyond the library's size must be zero, because they request features that this version lacks.
///
/// # Safety
/// `pointer` is NULL or readable for the number of bytes in its first member, which are valid
/// members of `T` or of a later version of it.
pub(crate) unsafe fn read<T: Sized>(pointer: *const T, defaults: T) -> Result<T> {
    // SAFETY: `pointer` is NULL or has at least its first member, by this function's contract.
    let size = unsafe { declared_size::<T>(pointer) }?;
    let mut value = defaults;
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes are readable by this function's contract, and `value` has at least that
    // many. They are valid members of `T` by the contract.
    unsafe { pointer.cast::<u8>().copy_to_nonoverlapping((&raw mut value).cast(), known) };
    // SAFETY: `size` bytes are readable by this function's contract, and `known` is at most `size`.
    let rest = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>().add(known), size - known) };
    if rest.iter().any(|&byte| byte != 0) {
        return Err(Error::argument(format!(
            "{} sets members that this version of the library does not know.",
            T::NAME
        )));
    }
    Ok(value)
}

/// The caller's place for an output struct, with the size that the caller has set.
pub(crate) struct SizedOutput<T> {
    pointer: *mut T,
    size: usize,
}

impl<T: Sized> SizedOutput<T> {
    /// Checks the pointer and its size.
    ///
    /// # Safety
    /// `pointer` is NULL or writable for the number of bytes in its first member, until
    /// [`SizedOutput::set`] returns.
    pub(crate) unsafe fn new(pointer: *mut T) -> Result<Self> {
        // SAFETY: `pointer` is NULL or has at least its first member, by this function's contract.
        let size = unsafe { declared_size::<T>(pointer) }?;
        Ok(SizedOutput { pointer, size })
    }

    /// Writes all members that the caller knows, except the size.
    pub(crate) fn set(self, value: T) {
        let known = self.size.min(size_of::<T>());
        let start = size_of::<usize>();
        // SAFETY: `known` is at most the size of `value` and of the caller's struct, which is
        // writable by the contract of `new`. `value` is a local variable, so they do not overlap.
        unsafe {
            let source = (&raw const value).cast::<u8>().add(start);
            source.copy_to_nonoverlapping(self.pointer.cast::<u8>().add(start), known - start);
        }
    }
}

/// Reads and checks the size in the first member.
///
/// # Safety
/// `pointer` is NULL or its first member is readable.
unsafe fn declared_size<T: Sized>(pointer: *const T) -> Result<usize> {
    if pointer.is_null() {
        return Err(Error::argument(format!("The argument of type {} must not be NULL.", T::NAME)));
    }
    // SAFETY: not NULL, hence readable by this function's contract; the first member is a `usize`
    // by the trait's contract.
    let size = unsafe { pointer.cast::<usize>().read() };
    if !(T::LEAST..=4096).contains(&size) {
        return Err(Error::argument(format!(
            "The member struct_size of {} is {size}; it must be set to sizeof({0}), {} in this version.",
            T::NAME,
            size_of::<T>()
        )));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Known {
        size: usize,
        a: u64,
    }

    // SAFETY: `repr(C)` with integers only, a `usize` first.
    unsafe impl Sized for Known {
        const NAME: &'static str = "Known";
    }

    /// [`Known`] in a later version.
    #[repr(C)]
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Later {
        size: usize,
        a: u64,
        b: u64,
    }

    // SAFETY: `repr(C)` with integers only, a `usize` first.
    unsafe impl Sized for Later {
        const NAME: &'static str = "Later";
        const LEAST: usize = size_of::<Known>();
    }

    const DEFAULT: Known = Known { size: 0, a: 5 };

    fn read_later(b: u64) -> Result<Known> {
        let later = Later { size: size_of::<Later>(), a: 1, b };
        // SAFETY: the struct has the size that it states.
        unsafe { read((&raw const later).cast(), DEFAULT) }
    }

    #[test]
    fn members_of_later_versions_must_be_zero() {
        assert_eq!(read_later(0).map(|known| known.a).ok(), Some(1));
        assert!(read_later(1).is_err());
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for size in [0, size_of::<Known>() - 1, usize::MAX] {
            let known = Known { size, a: 1 };
            // SAFETY: the size is refused before other members are read.
            assert!(unsafe { read(&raw const known, DEFAULT) }.is_err(), "{size}");
        }
        // SAFETY: NULL is allowed.
        assert!(unsafe { read(std::ptr::null(), DEFAULT) }.is_err());
    }

    #[test]
    fn grown_structs_accept_older_callers() {
        let default = Later { size: 0, a: 5, b: 7 };
        let mut known = Known { size: size_of::<Known>(), a: 1 };
        // SAFETY: the struct has the size that it states.
        let later = unsafe { read((&raw const known).cast::<Later>(), default) };
        assert_eq!(later.ok(), Some(Later { size: size_of::<Known>(), a: 1, b: 7 }));
        // SAFETY: as above.
        let output = unsafe { SizedOutput::<Later>::new((&raw mut known).cast()) };
        output.expect("a good size").set(Later { size: 0, a: 3, b: 9 });
        assert_eq!(known, Known { size: size_of::<Known>(), a: 3 });
    }

    #[test]
    fn outputs_keep_their_size_and_later_members() {
        let mut later = Later { size: size_of::<Later>(), a: 0, b: 9 };
        // SAFETY: the struct has the size that it states.
        let output = unsafe { SizedOutput::<Known>::new((&raw mut later).cast()) };
        output.expect("a good size").set(Known { size: 0, a: 3 });
        assert_eq!(later, Later { size: size_of::<Later>(), a: 3, b: 9 });
    }
}
