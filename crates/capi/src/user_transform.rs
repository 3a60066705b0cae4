//! Transforms of users' own: the table of callbacks.

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

/// What an image is, without its values.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct cntk_reader_image_info {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Values of a pixel: 1 (gray), 3 (blue, green, red), or what users' code makes.
    pub channels: u32,
    /// Type of the values, a cntk_reader_element: `UINT8`, `FLOAT` or `DOUBLE`.
    pub element: u32,
    /// 0: row after row, in a row pixel after pixel. 1: channel after channel, each row after row (`Transpose`).
    pub is_planar: u32,
    /// 0.
    pub reserved: u32,
}

/// Says what the transform makes of such an image: `result` has what the image is, for the callback to change. It must depend
/// on `image` alone; it is called several times for each image. Returns 0, or another number if it fails.
pub type cntk_reader_describe_image = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        image: *const cntk_reader_image_info,
        result: *mut cntk_reader_image_info,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Transforms an image. `values` are the image's values, `width * height * channels` of its type; `result` is what
/// describe_image has said, and `result_values` the place for all of its values, which holds values of other images. The two
/// places do not overlap, are aligned for their types, and must not be used once the callback has returned. `random` was drawn
/// for this image: what is random has to depend on nothing else. Returns 0, or another number if it fails.
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

/// The part of the decoded image that the crops and scales before a transform have left.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct cntk_reader_draw {
    /// First column of the part that is shown, in columns of the decoded image. Negative where `Scale` has padded the image.
    pub left: f64,
    /// First row of the part.
    pub top: f64,
    /// Columns of the part, in columns of the decoded image.
    pub width: f64,
    /// Rows of the part.
    pub height: f64,
    /// Columns of the decoded image.
    pub source_width: u32,
    /// Rows of the decoded image.
    pub source_height: u32,
    /// 1 if the part's columns are in reverse order, else 0.
    pub is_mirrored: u32,
    /// 0.
    pub reserved: u32,
}

impl From<&Drawn> for cntk_reader_draw {
    fn from(drawn: &Drawn) -> Self {
        let Drawn { left, top, width, height, mirrored, source_width, source_height } = *drawn;
        let is_mirrored = mirrored.into();
        cntk_reader_draw { left, top, width, height, source_width, source_height, is_mirrored, reserved: 0 }
    }
}

/// Transforms an image, as cntk_reader_transform_image does, and also gets what was drawn before: `draw` says which part of the
/// decoded image this one shows, and whether it is mirrored.
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

/// A transform of the user's own, as a table of callbacks. Initialize with zeros, and set struct_size.
///
/// The configuration names it as `type` of an element of `transforms`, without `module`. Images come to it as the transforms
/// before it have left them: as bytes at first.
///
/// Threads: the callbacks are called by the thread that reads and by the library's own, one at a time for each table; with
/// `thread_safe` several at once. They must not throw, and not use readers of this library.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_transform {
    /// sizeof(cntk_reader_user_transform).
    pub struct_size: usize,
    /// The first argument of every callback.
    pub userdata: *mut c_void,
    /// The name that the configuration has for it, UTF-8.
    pub name: *const c_char,
    /// Bytes of the name, or CNTK_READER_NUL_TERMINATED.
    pub name_length: usize,
    /// Says what becomes of an image; may be NULL: it keeps size, type and order of its values.
    pub describe_image: cntk_reader_describe_image,
    /// Transforms an image. Must be set, unless transform_drawn_image is.
    pub transform_image: cntk_reader_transform_image,
    /// Called once when the transform is not needed any more, at the latest when the reader is freed; may be NULL. Not called if
    /// opening the reader fails.
    pub finalizer: cntk_reader_finalizer,
    /// 1 if several threads may transform images at once, else 0.
    pub thread_safe: u32,
    /// 0.
    pub reserved: u32,
    /// Transforms an image, in place of transform_image; may be NULL.
    pub transform_drawn_image: cntk_reader_transform_drawn_image,
}

// SAFETY: every member is an integer, a pointer or a nullable function pointer, for all of which zero bytes are a value; other
// bytes of a callback come from the user's C compiler. The first member is the size.
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

/// Images whose memory is kept for the next ones: as many as threads transform at once, and some.
const MOST_IDLE: usize = 64;

/// A table.
struct Table {
    callbacks: cntk_reader_user_transform,
    /// Held during callbacks that must not be called at the same time.
    turn: Option<Mutex<()>>,
    /// Memory for results.
    idle: Mutex<Vec<Pixels>>,
    /// The userdata is the library's to give up.
    is_owned: AtomicBool,
}

// SAFETY: the members that are no plain Rust data are callbacks and pointers of the user's. The name is not read after the table
// was copied; the callbacks are called with the userdata, from the threads that the header names, and one at a time unless the
// table says otherwise, which `turn` sees to.
unsafe impl Send for Table {}
// SAFETY: as above; calling callbacks is all that a shared reference is used for.
unsafe impl Sync for Table {}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(finalizer) = self.callbacks.finalizer
            && *self.is_owned.get_mut()
        {
            // SAFETY: the table's own callback with its own userdata; `drop` runs once, and no callback is running then,
            // because each has a reference to this table.
            exit::foreign(|| unsafe { finalizer(self.callbacks.userdata) });
        }
    }
}

impl Table {
    fn new(callbacks: cntk_reader_user_transform) -> Result<Table> {
        let table = Table {
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

    /// Memory for a result: `values` values of a type. They are those of other images.
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
        if idle.len() < MOST_IDLE {
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
                let message =
                    format!("describe_image gives an image with values of the type {}.", info.element);
                let detail = "Expected CNTK_READER_ELEMENT_UINT8, CNTK_READER_ELEMENT_FLOAT or CNTK_READER_ELEMENT_DOUBLE.";
                return Err(wrong(message).with_detail(detail));
            }
        };
        let order = if info.is_planar == 0 { PixelOrder::Interleaved } else { PixelOrder::Planar };
        Ok(ImageInfo { width: info.width, height: info.height, channels: info.channels, depth, order })
    }
}

/// The engine's view of a table.
struct User(Arc<Table>);

impl UserTransform for User {
    fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
        let Some(describe) = self.0.callbacks.describe_image else { return Ok(image) };
        let image = cntk_reader_image_info::from(image);
        let (mut result, mut failure) = (image, cntk_reader_failure::default());
        let status = {
            let _turn = self.0.turn();
            // SAFETY: the table's own callback with its own userdata; the other pointers lead to variables of this function.
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
            // SAFETY: the table's own callback with its own userdata. `values` are the image's, as many as `from` says, which
            // `check_image` has seen to where they come from users' code, and the engine elsewhere; `place` has room for as
            // many as `to` says, by `take`. Both live on, and nothing else uses them, until the callback returns.
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

/// The transforms that a reader is opened with.
#[derive(Default)]
pub(super) struct Transforms {
    registered: Vec<(String, Arc<dyn UserTransform>)>,
    /// Those that the caller has given, whose userdata are its own until the reader is open.
    given: Vec<Arc<Table>>,
}

impl Transforms {
    /// Copies and checks tables.
    ///
    /// # Safety
    /// Each table is NULL, or as the header demands it.
    pub(super) unsafe fn read(tables: &[*const cntk_reader_user_transform]) -> Result<Transforms> {
        let mut read = Transforms::default();
        for &table in tables {
            // SAFETY: NULL, which `input` refuses, or a table with a size, and a name as its members say, by this function's
            // contract.
            let (name, table) = unsafe {
                input(table, "transforms")?;
                let table = sized::read(table, NO_TABLE)?;
                (text::utf8(table.name, table.name_length, "name")?.to_owned(), Table::new(table)?)
            };
            let table = Arc::new(table);
            read.add(&name, &table)?;
            read.given.push(table);
        }
        Ok(read)
    }

    fn add(&mut self, name: &str, table: &Arc<Table>) -> Result<()> {
        transform::register(&mut self.registered, name, Arc::new(User(Arc::clone(table))))
    }

    /// Their names, for the configuration.
    pub(super) fn names(&self) -> Vec<&str> {
        self.registered.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The transforms, for the engine.
    pub(super) fn registered(&self) -> &[(String, Arc<dyn UserTransform>)] {
        &self.registered
    }

    /// The reader is open: from now on the finalizers are the library's to call.
    pub(super) fn take_userdata(&self) {
        self.given.iter().for_each(|table| table.is_owned.store(true, Ordering::Relaxed));
    }
}
