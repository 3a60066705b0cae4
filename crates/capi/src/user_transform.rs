//! User-defined image transforms: the table of callbacks.

use super::call::input;
use super::failure::cntk_reader_failure;
use super::finalizer::cntk_reader_finalizer;
use super::sized::{self, Sized};
use super::text;
use super::user_data::wrong;
use cntk_reader_core::format::user::transform::{self, UserTransform};
use cntk_reader_core::image::{Depth, Drawn, Image, ImageInfo, PixelOrder, Pixels};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::exit;
use cntk_reader_core::runtime::lock::{Mutex, MutexGuard};
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size and format of an image.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct cntk_reader_image_info {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Values per pixel: 1 (gray), 3 (blue, green, red), or any number that user code produces.
    pub channels: u32,
    /// Type of the values: a cntk_reader_element, `UINT8`, `FLOAT` or `DOUBLE`.
    pub element: u32,
    /// 0: interleaved, row by row with the channels of a pixel next to each other. 1: planar,
    /// channel by channel, each row by row (`Transpose`).
    pub is_planar: u32,
    /// Reserved; 0.
    pub reserved: u32,
}

/// Computes the size and format of the transform's result. On entry `result` equals `image`; the
/// callback changes it. It must depend on `image` alone, and is called several times for each
/// image. Returns 0, or a nonzero number on failure.
pub type cntk_reader_describe_image = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        image: *const cntk_reader_image_info,
        result: *mut cntk_reader_image_info,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Transforms an image. `values` holds the image's `width * height * channels` values of its type.
/// `result` is the output of `describe_image`, and `result_values` has room for all of its values;
/// its initial contents are unspecified. The two buffers do not overlap, are aligned for their
/// types, and must not be used after the callback returns. `random` was drawn for this image; all
/// randomness must depend on it alone. Returns 0, or a nonzero number on failure.
pub type cntk_reader_transform_image = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        image: *const cntk_reader_image_info,
        values: *const c_void,
        result: *const cntk_reader_image_info,
        result_values: *mut c_void,
        random: u64,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// The part of the decoded image that remains after the crops and scales before a transform.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct cntk_reader_draw {
    /// First column of the part, in columns of the decoded image. Negative if `Scale` has padded
    /// the image.
    pub left: f64,
    /// First row of the part, in rows of the decoded image.
    pub top: f64,
    /// Width of the part, in columns of the decoded image.
    pub width: f64,
    /// Height of the part, in rows of the decoded image.
    pub height: f64,
    /// Width of the decoded image.
    pub source_width: u32,
    /// Height of the decoded image.
    pub source_height: u32,
    /// 1 if the image is mirrored (columns in reverse order), else 0.
    pub is_mirrored: u32,
    /// Reserved; 0.
    pub reserved: u32,
}

impl From<&Drawn> for cntk_reader_draw {
    fn from(drawn: &Drawn) -> Self {
        let Drawn { left, top, width, height, mirrored, source_width, source_height } = *drawn;
        let is_mirrored = mirrored.into();
        cntk_reader_draw { left, top, width, height, source_width, source_height, is_mirrored, reserved: 0 }
    }
}

/// Transforms an image like cntk_reader_transform_image. `draw` also says which part of the decoded
/// image this one shows, and whether it is mirrored.
pub type cntk_reader_transform_drawn_image = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        image: *const cntk_reader_image_info,
        values: *const c_void,
        result: *const cntk_reader_image_info,
        result_values: *mut c_void,
        random: u64,
        draw: *const cntk_reader_draw,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// A user-defined image transform as a table of callbacks. Initialize with zeros and set
/// `struct_size`.
///
/// An element of the configuration's `transforms` selects it by its name as `type`, without a
/// `module`. It receives images as the preceding transforms have left them, initially as bytes.
///
/// Threads: the callbacks are called on the thread that reads and on the library's own, one call at
/// a time for each table unless `thread_safe` is 1. They must not throw, and must not use readers
/// of this library.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_transform {
    /// sizeof(cntk_reader_user_transform).
    pub struct_size: usize,
    /// The first argument of every callback.
    pub userdata: *mut c_void,
    /// Name in the configuration, UTF-8.
    pub name: *const c_char,
    /// Bytes of the name, or CNTK_READER_NUL_TERMINATED.
    pub name_length: usize,
    /// Computes the size and format of the result. NULL: size, type and order of the values stay
    /// unchanged.
    pub describe_image: cntk_reader_describe_image,
    /// Transforms an image. Must be set unless `transform_drawn_image` is set.
    pub transform_image: cntk_reader_transform_image,
    /// Called once when the transform is unused, at the latest when the reader is freed. May be
    /// NULL. Not called if opening the reader fails.
    pub finalizer: cntk_reader_finalizer,
    /// 1 if several threads may transform images at once, else 0.
    pub thread_safe: u32,
    /// Reserved; 0.
    pub reserved: u32,
    /// Transforms an image, in place of `transform_image`. May be NULL.
    pub transform_drawn_image: cntk_reader_transform_drawn_image,
}

// SAFETY: `repr(C)`, and the first member is the size. The others are integers, pointers and
// nullable function pointers, for all of which zero is valid; other bits of a function pointer come
// from the user's C compiler.
unsafe impl Sized for cntk_reader_user_transform {
    const NAME: &'static str = "cntk_reader_user_transform";
}

/// An empty table.
const NO_TABLE: cntk_reader_user_transform = cntk_reader_user_transform {
    struct_size: size_of::<cntk_reader_user_transform>(),
    userdata: null_mut(),
    name: null(),
    name_length: 0,
    describe_image: None,
    transform_image: None,
    finalizer: None,
    thread_safe: 0,
    reserved: 0,
    transform_drawn_image: None,
};

/// Number of buffers kept for later images: a little more than the threads that transform at once.
const MAX_IDLE: usize = 64;

/// A table of callbacks, with reusable memory.
struct TransformTable {
    callbacks: cntk_reader_user_transform,
    /// Serializes the callbacks of a table that is not thread-safe.
    turn: Option<Mutex<()>>,
    /// Reusable memory for results.
    idle: Mutex<Vec<Pixels>>,
    /// The library owns the userdata and calls the finalizer.
    is_owned: AtomicBool,
}

// SAFETY: the members that are not `Send` by themselves are the user's callbacks and pointers. The
// name is not read after the table was copied. The callbacks are called on the threads that the
// header names, one at a time unless the table is thread-safe, which `turn` ensures.
unsafe impl Send for TransformTable {}
// SAFETY: as above; a shared reference is only used to call callbacks.
unsafe impl Sync for TransformTable {}

impl Drop for TransformTable {
    fn drop(&mut self) {
        if let Some(finalizer) = self.callbacks.finalizer
            && *self.is_owned.get_mut()
        {
            // SAFETY: the table's own callback with its own userdata; `drop` runs once, and no
            // callback is running then, because each has a reference to this table.
            exit::foreign(|| unsafe { finalizer(self.callbacks.userdata) });
        }
    }
}

impl TransformTable {
    fn new(callbacks: cntk_reader_user_transform) -> Result<TransformTable> {
        let table = TransformTable {
            turn: (callbacks.thread_safe == 0).then(Mutex::default),
            idle: Mutex::default(),
            is_owned: AtomicBool::new(false),
            callbacks,
        };
        match (table.callbacks.transform_image, table.callbacks.transform_drawn_image) {
            (Some(_), _) | (_, Some(_)) => Ok(table),
            (None, None) => Err(Error::argument(
                "The callback transform_image must not be NULL: it transforms the images.",
            )),
        }
    }

    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.turn.as_ref().map(Mutex::lock)
    }

    /// Returns memory for `values` values of a type. Its contents are those of earlier images.
    fn take(&self, depth: Depth, values: usize) -> Result<Pixels> {
        fn fit<T: Copy + Default>(mut memory: Vec<T>, values: usize) -> Result<Vec<T>> {
            let more = values.saturating_sub(memory.len());
            room::reserve_exact(&mut memory, more, room::IMAGE)?;
            memory.resize(values, T::default());
            Ok(memory)
        }
        let used = self.idle.lock().pop();
        Ok(match (depth, used) {
            (Depth::Byte, Some(Pixels::Bytes(used))) => Pixels::Bytes(fit(used, values)?),
            (Depth::Byte, _) => Pixels::Bytes(fit(Vec::new(), values)?),
            (Depth::Element(ElementType::Double), Some(Pixels::Doubles(used))) => {
                Pixels::Doubles(fit(used, values)?)
            }
            (Depth::Element(ElementType::Double), _) => Pixels::Doubles(fit(Vec::new(), values)?),
            (Depth::Element(_), Some(Pixels::Floats(used))) => Pixels::Floats(fit(used, values)?),
            (Depth::Element(_), _) => Pixels::Floats(fit(Vec::new(), values)?),
        })
    }

    fn give_back(&self, pixels: Pixels) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(pixels);
        }
    }
}

impl From<ImageInfo> for cntk_reader_image_info {
    fn from(info: ImageInfo) -> Self {
        cntk_reader_image_info {
            width: info.width,
            height: info.height,
            channels: info.channels,
            element: info.depth.element() as u32,
            is_planar: (info.order == PixelOrder::Planar).into(),
            reserved: 0,
        }
    }
}

impl TryFrom<cntk_reader_image_info> for ImageInfo {
    type Error = Error;

    fn try_from(info: cntk_reader_image_info) -> Result<ImageInfo> {
        let depth = match ElementType::from_number(info.element) {
            Some(element) if element == ElementType::UInt8 || element.is_real() => Depth::of(element),
            _ => {
                let message = format!("describe_image returned an image with element type {}.", info.element);
                let detail = "Expected CNTK_READER_ELEMENT_UINT8, CNTK_READER_ELEMENT_FLOAT or CNTK_READER_ELEMENT_DOUBLE.";
                return Err(wrong(message).with_detail(detail));
            }
        };
        let order = if info.is_planar == 0 { PixelOrder::Interleaved } else { PixelOrder::Planar };
        Ok(ImageInfo { width: info.width, height: info.height, channels: info.channels, depth, order })
    }
}

/// The engine's view of a table.
struct User(Arc<TransformTable>);

impl UserTransform for User {
    fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
        let Some(describe) = self.0.callbacks.describe_image else { return Ok(image) };
        let image = cntk_reader_image_info::from(image);
        let (mut result, mut failure) = (image, cntk_reader_failure::default());
        let status = {
            let _turn = self.0.turn();
            // SAFETY: the table's own callback with its own userdata; the other pointers lead to
            // local variables.
            exit::foreign(|| unsafe {
                describe(self.0.callbacks.userdata, &raw const image, &raw mut result, &raw mut failure)
            })
        };
        failure.check("describe_image", status)?;
        result.try_into()
    }

    fn apply(&self, image: &mut Image, random: u64) -> Result<()> {
        let drawn = Drawn::whole(image.width, image.height);
        self.apply_drawn(image, random, &drawn)
    }

    fn apply_drawn(&self, image: &mut Image, random: u64, drawn: &Drawn) -> Result<()> {
        let table = &*self.0;
        let before = image.info();
        let after = transform::check_info(self.result(before)?)?;
        let mut pixels = table.take(after.depth, after.values())?;
        let (from, to) = (cntk_reader_image_info::from(before), cntk_reader_image_info::from(after));
        let values: *const c_void = match &image.pixels {
            Pixels::Bytes(values) => values.as_ptr().cast(),
            Pixels::Floats(values) => values.as_ptr().cast(),
            Pixels::Doubles(values) => values.as_ptr().cast(),
        };
        let place: *mut c_void = match &mut pixels {
            Pixels::Bytes(values) => values.as_mut_ptr().cast(),
            Pixels::Floats(values) => values.as_mut_ptr().cast(),
            Pixels::Doubles(values) => values.as_mut_ptr().cast(),
        };
        let (mut failure, draw) = (cntk_reader_failure::default(), cntk_reader_draw::from(drawn));
        let (userdata, from, to) = (table.callbacks.userdata, &raw const from, &raw const to);
        let failed = &raw mut failure;
        let status = {
            let _turn = table.turn();
            // SAFETY: the table's own callback with its own userdata. `values` has as many values
            // as `from` says: the engine ensures this, and `check_info` does for images from user
            // code. `place` has room for as many as `to` says, by `take`. Both are valid and
            // otherwise unused until the callback returns.
            exit::foreign(|| unsafe {
                match (table.callbacks.transform_drawn_image, table.callbacks.transform_image) {
                    (Some(transform), _) => {
                        Some(transform(userdata, from, values, to, place, random, &raw const draw, failed))
                    }
                    (None, Some(transform)) => {
                        Some(transform(userdata, from, values, to, place, random, failed))
                    }
                    (None, None) => None,
                }
            })
            .ok_or_else(|| Error::internal("A table of callbacks was not checked."))?
        };
        let outcome = failure.check("transform_image", status);
        match outcome {
            Ok(()) => {
                table.give_back(std::mem::replace(&mut image.pixels, pixels));
                (image.width, image.height, image.channels) = (after.width, after.height, after.channels);
                image.planar = after.order == PixelOrder::Planar;
                Ok(())
            }
            Err(error) => {
                table.give_back(pixels);
                Err(error)
            }
        }
    }

    fn shape(&self, before: Option<[usize; 3]>) -> Option<[usize; 3]> {
        before.filter(|_| self.0.callbacks.describe_image.is_none())
    }
}

/// The user-defined transforms that a reader is opened with.
#[derive(Default)]
pub(super) struct Transforms {
    registered: Vec<(String, Arc<dyn UserTransform>)>,
    /// The caller's tables, which keep ownership of their userdata until the reader is open.
    given: Vec<Arc<TransformTable>>,
}

impl Transforms {
    /// Copies and checks tables.
    ///
    /// # Safety
    /// Each pointer is NULL or leads to a table as the header requires.
    pub(super) unsafe fn read(tables: &[*const cntk_reader_user_transform]) -> Result<Transforms> {
        let mut read = Transforms::default();
        for &table in tables {
            // SAFETY: NULL, which `input` refuses, or a valid table, by this function's contract.
            let (name, table) = unsafe {
                input(table, "transforms")?;
                let table = sized::read(table, NO_TABLE)?;
                (text::utf8(table.name, table.name_length, "name")?.to_owned(), TransformTable::new(table)?)
            };
            let table = Arc::new(table);
            read.add(&name, &table)?;
            read.given.push(table);
        }
        Ok(read)
    }

    fn add(&mut self, name: &str, table: &Arc<TransformTable>) -> Result<()> {
        transform::register(&mut self.registered, name, Arc::new(User(Arc::clone(table))))
    }

    /// Returns the names for the configuration.
    pub(super) fn names(&self) -> Vec<&str> {
        self.registered.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the transforms for the engine.
    pub(super) fn registered(&self) -> &[(String, Arc<dyn UserTransform>)] {
        &self.registered
    }

    /// Takes ownership of the userdata once the reader is open: the library calls the finalizers.
    pub(super) fn take_userdata(&self) {
        self.given.iter().for_each(|table| table.is_owned.store(true, Ordering::Relaxed));
    }
}
