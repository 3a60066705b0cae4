//! User-defined transforms of a stream, as tables of callbacks: they return invalid results, fail,
//! and cancel the call that they run in. Each table's userdata must be released once.

use super::cancelling;
use super::made::Room;
use crate::choices::Choices;
use cntk_reader_capi::failure::{cntk_reader_failure, cntk_reader_failure_set_message};
use cntk_reader_capi::user_transform::{
    cntk_reader_draw, cntk_reader_image_info, cntk_reader_user_transform,
};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Section of the stream `x`, whose samples of two values are images of two columns.
const SECTIONS: [&str; 4] = [
    "",
    "; imageShape = \"1:2:1\" ; transforms = ( [ type = mine ] )",
    "; imageShape = \"2:1:1\" ; transforms = ( [ type = mine ] : [ type = Transpose ] )",
    "; imageShape = \"1:1:2\" ; transforms = ( [ type = Crop ] : [ type = mine ] : [ type = Scale ; width = 2 ; height = 1 ; channels = 1 ] )",
];

/// Number of userdata that have not been released.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Fails if userdata were leaked.
pub fn check_all_given_back() {
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "userdata that the library has not released");
}

/// The userdata of a table.
struct User {
    /// Selects the result for an image: see [`describe`].
    answer: u8,
    /// The callback fails for every n-th image; never, if it is 0.
    fails: u32,
    /// The callback cancels the call for every n-th image; never, if it is 0.
    cancels: u32,
    images: AtomicU32,
}

impl Drop for User {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A table for a reader to be opened.
pub struct StoredTable {
    room: Room<cntk_reader_user_transform>,
    userdata: *mut c_void,
}

impl StoredTable {
    /// Chooses a table for the source, or `None`, and the section of the stream.
    pub fn chosen(choices: &mut Choices<'_>) -> (Option<StoredTable>, &'static str) {
        let section = choices.pick(&SECTIONS);
        if section.is_empty() && !choices.once_in(4) || choices.once_in(16) {
            return (None, section);
        }
        ALIVE.fetch_add(1, Ordering::SeqCst);
        let userdata = Box::into_raw(Box::new(User {
            answer: choices.byte(),
            fails: *choices.pick(&[0, 0, 1, 3]),
            cancels: *choices.pick(&[0, 1, 2, 5]),
            images: AtomicU32::new(0),
        }))
        .cast();
        let table = cntk_reader_user_transform {
            struct_size: size_of::<cntk_reader_user_transform>(),
            userdata,
            name: c"mine".as_ptr(),
            name_length: *choices.pick(&[4, 4, usize::MAX, 2]),
            describe_image: if choices.once_in(3) { None } else { Some(describe) },
            transform_image: if choices.once_in(16) { None } else { Some(transform) },
            finalizer: Some(finalize),
            thread_safe: choices.below(2) as u32,
            reserved: 0,
            transform_drawn_image: if choices.once_in(4) { Some(transform_drawn) } else { None },
        };
        (Some(StoredTable { room: Room::chosen(choices).with(&table), userdata }), section)
    }

    /// Returns the table for the source.
    pub fn pointer(&mut self) -> *const cntk_reader_user_transform {
        self.room.pointer()
    }

    /// Hands over the userdata: to the reader if it was opened, which releases them later;
    /// otherwise they still belong to the caller and are released here.
    pub fn opened(self, is_open: bool) {
        if !is_open {
            // SAFETY: a box from `StoredTable::chosen`; the library does not call the finalizer of
            // a reader that was not opened.
            unsafe { finalize(self.userdata) };
        }
    }
}

unsafe extern "C-unwind" fn finalize(userdata: *mut c_void) {
    // SAFETY: a box from `StoredTable::chosen`, which is released once.
    drop(unsafe { Box::from_raw(userdata.cast::<User>()) });
}

unsafe extern "C-unwind" fn describe(
    userdata: *mut c_void,
    _: *const cntk_reader_image_info,
    result: *mut cntk_reader_image_info,
    _: *mut cntk_reader_failure,
) -> i32 {
    // SAFETY: the userdata of a table, which live until they are given back, and the callback's
    // result.
    let (user, result) = unsafe { (&*userdata.cast::<User>(), &mut *result) };
    match user.answer % 16 {
        0 => result.width += 1,
        1 => result.element = 2,
        2 => result.is_planar = 1,
        3 => (result.width, result.height, result.channels) = (u32::MAX, u32::MAX, u32::MAX),
        4 => (result.width, result.channels) = (1 << 31, 1 << 31),
        5 => result.channels = 0,
        6 => result.element = 7,
        7 => return 1,
        // A different result each time, which the header forbids.
        8 => result.height = 1 + user.images.fetch_add(1, Ordering::Relaxed) % 3,
        _ => {}
    }
    0
}

unsafe extern "C-unwind" fn transform(
    userdata: *mut c_void,
    image: *const cntk_reader_image_info,
    values: *const c_void,
    result: *const cntk_reader_image_info,
    result_values: *mut c_void,
    random: u64,
    failure: *mut cntk_reader_failure,
) -> i32 {
    // SAFETY: the userdata of a table, which live until they are given back, and the callback's
    // arguments.
    let (user, image, result) = unsafe { (&*userdata.cast::<User>(), &*image, &*result) };
    // SAFETY: both pointers have the number of bytes that the descriptions imply.
    let (from, to) = unsafe {
        (
            std::slice::from_raw_parts(values.cast::<u8>(), bytes(image)),
            std::slice::from_raw_parts_mut(result_values.cast::<u8>(), bytes(result)),
        )
    };
    let number = user.images.fetch_add(1, Ordering::Relaxed) + 1;
    let is_time = |every: u32| every > 0 && number.is_multiple_of(every);
    if is_time(user.cancels) {
        cancelling::cancel();
    }
    if is_time(user.fails) {
        let message = if random.is_multiple_of(2) { c"not today".as_ptr() } else { null_mut() };
        // SAFETY: `failure` is the callback's argument, and the message is NUL-terminated or NULL.
        unsafe { cntk_reader_failure_set_message(failure, message, usize::MAX) };
        return 1;
    }
    let sum = from.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
    to.fill(sum);
    0
}

unsafe extern "C-unwind" fn transform_drawn(
    userdata: *mut c_void,
    image: *const cntk_reader_image_info,
    values: *const c_void,
    result: *const cntk_reader_image_info,
    result_values: *mut c_void,
    random: u64,
    draw: *const cntk_reader_draw,
    failure: *mut cntk_reader_failure,
) -> i32 {
    // SAFETY: the callback's argument, which lives until it returns.
    let draw = unsafe { &*draw };
    assert!(draw.is_mirrored <= 1 && draw.reserved == 0, "a draw with impossible flags");
    assert!(
        draw.left >= 0.0 && draw.top >= 0.0 && draw.width >= 0.0 && draw.height >= 0.0,
        "a draw outside of its image"
    );
    // SAFETY: the callback's other arguments, passed on unchanged.
    unsafe { transform(userdata, image, values, result, result_values, random, failure) }
}

/// Returns the size of an image's values in bytes.
fn bytes(image: &cntk_reader_image_info) -> usize {
    let size = *[1, 4, 8].get(image.element as usize).expect("a type of values");
    image.width as usize * image.height as usize * image.channels as usize * size
}
