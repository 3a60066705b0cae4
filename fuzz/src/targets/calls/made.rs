//! How calls are made: places for their errors, memory for structs of the caller, and numbers.

use super::cancelling;
use crate::choices::Choices;
use cntk_reader_capi::error::*;
use cntk_reader_capi::status::cntk_reader_status;
use std::ffi::CStr;
use std::mem::{MaybeUninit, size_of};
use std::ptr::null_mut;

/// Numbers for sizes, counts and places.
const NUMBERS: [u64; 12] =
    [0, 1, 2, 3, 5, 64, 1 << 31, u32::MAX as u64, 1 << 62, i64::MAX as u64, u64::MAX - 1, u64::MAX];

/// Where a call puts its error.
pub type ErrorPlace<'a> = Option<&'a mut MaybeUninit<*mut cntk_reader_error>>;

/// Makes a call with a place for its error, or without one, and looks at what it returns.
pub fn check(choices: &mut Choices<'_>, call: impl FnOnce(ErrorPlace<'_>) -> cntk_reader_status) -> bool {
    let call = |place: ErrorPlace<'_>| {
        cancelling::begin_call();
        let status = call(place);
        let is_cancelled = status == cntk_reader_status::CNTK_READER_STATUS_CANCELLED;
        assert!(!is_cancelled || cancelling::was_tried(), "a call has ended that nobody has cancelled");
        status
    };
    if choices.once_in(16) {
        return is_ok(call(None));
    }
    let mut place = MaybeUninit::new(null_mut());
    let status = call(Some(&mut place));
    // SAFETY: the place was NULL, or the call has written an error to it.
    let error: *mut cntk_reader_error = unsafe { place.assume_init() };
    if is_ok(status) {
        assert!(error.is_null(), "an error of a call that succeeded");
        return true;
    }
    assert!(!error.is_null(), "no error of a call that failed");
    // SAFETY: an error of the library, which is freed here, once.
    let error = unsafe { Box::from_raw(error) };
    // SAFETY: texts of errors are terminated and live as long.
    let text = unsafe { CStr::from_ptr(cntk_reader_error_get_text(Some(&error))) };
    assert!(!text.is_empty(), "an error without a text");
    let mut info = Room::<cntk_reader_error_info>::whole();
    // SAFETY: the room is as large as it says.
    assert!(is_ok(unsafe { cntk_reader_error_describe(Some(&error), info.pointer()) }));
    cntk_reader_error_free(Some(error));
    false
}

fn is_ok(status: cntk_reader_status) -> bool {
    assert_ne!(status, cntk_reader_status::CNTK_READER_STATUS_INTERNAL);
    status == cntk_reader_status::CNTK_READER_STATUS_OK
}

/// Memory for a struct of the caller, as large as its first member says, and at least as large as the struct.
pub struct Room<T>(Vec<u64>, std::marker::PhantomData<T>);

impl<T> Room<T> {
    pub fn of_size(stated: usize) -> Room<T> {
        let bytes = stated.clamp(size_of::<T>(), 4096);
        let mut memory = vec![0; bytes.div_ceil(8)];
        memory[0] = stated as u64;
        Room(memory, std::marker::PhantomData)
    }

    /// As large as the struct.
    pub fn whole() -> Room<T> {
        Room::of_size(size_of::<T>())
    }

    /// Mostly as large as the struct; else of another size, which may be refused.
    pub fn chosen(choices: &mut Choices<'_>) -> Room<T> {
        match choices.once_in(8) {
            true => Room::of_size(*choices.pick(&[0, 7, 8, 16, 24, 64, 1000, 4096, 4097, usize::MAX])),
            false => Room::whole(),
        }
    }

    pub fn with(mut self, value: &T) -> Room<T> {
        let stated = self.0[0];
        // SAFETY: there is room for the struct, which consists of plain numbers and pointers.
        unsafe { self.0.as_mut_ptr().cast::<T>().copy_from_nonoverlapping(value, 1) };
        self.0[0] = stated;
        self
    }

    pub fn pointer(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }

    /// What a call has written, if the struct was as large as it is.
    pub fn get(&self) -> &T {
        assert!(self.0[0] as usize >= size_of::<T>());
        // SAFETY: the memory has the size of the struct, is zeroed, or written by the library.
        unsafe { &*self.0.as_ptr().cast() }
    }
}

/// A number of a few, or an odd one.
pub fn number(choices: &mut Choices<'_>) -> u64 {
    match choices.once_in(4) {
        true => *choices.pick(&NUMBERS),
        false => choices.below(12) as u64,
    }
}

/// A handle that a call has written; NULL where it failed.
pub fn taken<T>(place: MaybeUninit<*mut T>) -> Option<Box<T>> {
    // SAFETY: the place was NULL at first; what the library writes is a handle that its function frees as a box.
    let pointer = unsafe { place.assume_init() };
    // SAFETY: as above, and nobody else has it.
    (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
}
