//! Helpers for calls: places for errors, memory for the caller's structs, and numbers.

use super::cancelling;
use crate::choices::Choices;
use cntk_reader_capi::error::*;
use cntk_reader_capi::status::cntk_reader_status;
use std::ffi::CStr;
use std::mem::{MaybeUninit, size_of};
use std::ptr::null_mut;

/// Numbers for sizes, counts and positions.
const NUMBERS: [u64; 12] =
    [0, 1, 2, 3, 5, 64, 1 << 31, u32::MAX as u64, 1 << 62, i64::MAX as u64, u64::MAX - 1, u64::MAX];

/// The place for the error of a call.
pub type ErrorPlace<'a> = Option<&'a mut MaybeUninit<*mut cntk_reader_error>>;

/// Makes a call with or without a place for its error, and checks the result.
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
    // SAFETY: `place` was initialized with NULL, and the call may have written an error to it.
    let error: *mut cntk_reader_error = unsafe { place.assume_init() };
    if is_ok(status) {
        assert!(error.is_null(), "an error of a call that succeeded");
        return true;
    }
    assert!(!error.is_null(), "no error of a call that failed");
    // SAFETY: the library has transferred ownership of the error, which is freed below.
    let handle = unsafe { error.as_ref() };
    // SAFETY: the text of an error is NUL-terminated and lives as long as the error.
    let text = unsafe { CStr::from_ptr(cntk_reader_error_get_text(handle)) };
    assert!(!text.is_empty(), "an error without a text");
    let mut info = Room::<cntk_reader_error_info>::whole();
    // SAFETY: the struct has its stated size.
    assert!(is_ok(unsafe { cntk_reader_error_describe(handle, info.pointer()) }));
    // SAFETY: as above.
    unsafe { cntk_reader_error_free(error) };
    false
}

fn is_ok(status: cntk_reader_status) -> bool {
    assert_ne!(status, cntk_reader_status::CNTK_READER_STATUS_INTERNAL);
    status == cntk_reader_status::CNTK_READER_STATUS_OK
}

/// Memory for a struct of the caller: as large as its first member says, but at least the size of
/// the struct, and at most 4096 bytes, above which the library refuses sizes.
pub struct Room<T>(Vec<u64>, std::marker::PhantomData<T>);

impl<T> Room<T> {
    pub fn of_size(stated: usize) -> Room<T> {
        let bytes = stated.clamp(size_of::<T>(), 4096);
        let mut memory = vec![0; bytes.div_ceil(8)];
        memory[0] = stated as u64;
        Room(memory, std::marker::PhantomData)
    }

    /// Memory of the struct's size.
    pub fn whole() -> Room<T> {
        Room::of_size(size_of::<T>())
    }

    /// Mostly of the struct's size; otherwise of another size, which the library may refuse.
    pub fn chosen(choices: &mut Choices<'_>) -> Room<T> {
        match choices.once_in(8) {
            true => Room::of_size(*choices.pick(&[0, 7, 8, 16, 24, 64, 1000, 4096, 4097, usize::MAX])),
            false => Room::whole(),
        }
    }

    pub fn with(mut self, value: &T) -> Room<T> {
        let stated = self.0[0];
        // SAFETY: `of_size` allocates at least `size_of::<T>()` bytes, and the struct consists of
        // plain numbers and pointers.
        unsafe { self.0.as_mut_ptr().cast::<T>().copy_from_nonoverlapping(value, 1) };
        self.0[0] = stated;
        self
    }

    pub fn pointer(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }

    /// Returns the struct after a call.
    pub fn get(&self) -> &T {
        assert!(self.0[0] as usize >= size_of::<T>());
        // SAFETY: the memory has at least the size of the struct, and is zeroed or written by the
        // library.
        unsafe { &*self.0.as_ptr().cast() }
    }
}

/// Chooses a small number, or an odd one.
pub fn number(choices: &mut Choices<'_>) -> u64 {
    match choices.once_in(4) {
        true => *choices.pick(&NUMBERS),
        false => choices.below(12) as u64,
    }
}

/// Takes ownership of the handle that a call has written; `None` if it failed.
pub fn taken<T>(place: MaybeUninit<*mut T>) -> Option<Box<T>> {
    // SAFETY: `place` was initialized with NULL, and the library writes only handles that its own
    // function frees as a box.
    let pointer = unsafe { place.assume_init() };
    // SAFETY: as above, and this function owns the handle.
    (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
}

/// Gives up a handle for the function that frees it.
pub fn given_up<T>(handle: Option<Box<T>>) -> *mut T {
    handle.map_or(null_mut(), Box::into_raw)
}
