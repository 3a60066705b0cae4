//! Handles: pointers to tagged headers, so that misuse is an error instead of undefined behaviour.
//!
//! A handle of any type points to a [`Header`]: a tag with the handle's type, and a pointer to its
//! object. Releasing a handle drops the object and changes the tag; the header is kept until
//! [`KEPT`] later handles were released, and then used again. Until then, a call with the released
//! handle finds the changed tag. All headers have one layout, so a handle of another type can be
//! read as well. A valid call costs one comparison and one more load.

use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::{Error, Result};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

/// The types of handles. A number is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Reader = 1,
    Error = 2,
    Minibatch = 3,
    Buffer = 4,
    Options = 5,
    Canceller = 6,
}

impl Kind {
    const ALL: [(Kind, &str); 6] = [
        (Kind::Reader, "cntk_reader"),
        (Kind::Error, "cntk_reader_error"),
        (Kind::Minibatch, "cntk_reader_minibatch"),
        (Kind::Buffer, "cntk_reader_buffer"),
        (Kind::Options, "cntk_reader_options"),
        (Kind::Canceller, "cntk_reader_canceller"),
    ];

    /// The tag of a handle that is not released.
    const fn live(self) -> u64 {
        u64::from_be_bytes(*b"cntkRD\0\0") | self as u64
    }

    /// The tag of a released handle.
    const fn released(self) -> u64 {
        self.live() | RELEASED
    }

    fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("handle", |&(_, name)| name)
    }
}

/// The bit that distinguishes the tags of released handles.
const RELEASED: u64 = 1 << 8;

/// The memory that a handle points to, for handles of all types.
#[derive(Debug)]
pub struct Header {
    tag: AtomicU64,
    object: AtomicPtr<()>,
}

/// A type of handle: a struct whose only member is a [`Header`].
///
/// # Safety
/// No other type has this `KIND`.
pub(crate) unsafe trait Handle: Sized {
    const KIND: Kind;
    type Object;

    fn header(&self) -> &Header;
}

/// Where a handle was found, for messages.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// An argument. `path` is the path of an item inside the function, from `type_name_of_val`.
    Argument { path: &'static str, name: &'static str },
    /// A member of a struct.
    Member { of: &'static str, name: &'static str },
}

impl Place {
    fn text(self) -> String {
        match self {
            Place::Argument { path, name } => {
                let function = path.rsplit("::").find(|part| part.starts_with("cntk_reader_"));
                format!("The argument '{name}' of {}", function.unwrap_or("a call"))
            }
            Place::Member { of, name } => format!("The member '{name}' of {of}"),
        }
    }
}

/// The place of an argument of the function that this stands in.
macro_rules! argument {
    ($name:expr) => {{
        fn here() {}
        $crate::handle::Place::Argument { path: std::any::type_name_of_val(&here), name: $name }
    }};
}

/// Borrows the object of a handle that is an argument of the function that this stands in. NULL and
/// handles that are released or of another type are errors.
macro_rules! object {
    ($handle:ident) => {
        $crate::handle::object_of($handle, $crate::handle::argument!(stringify!($handle)))
    };
}

pub(crate) use {argument, object};

/// Makes a handle that owns an object.
pub(crate) fn hand_out<H: Handle>(object: Box<H::Object>) -> *mut H {
    const {
        assert!(size_of::<H>() == size_of::<Header>() && align_of::<H>() == align_of::<Header>());
    }
    let object = Box::into_raw(object).cast();
    let Some(header) = RELEASED_HEADERS.oldest() else {
        let header = Header { tag: AtomicU64::new(H::KIND.live()), object: AtomicPtr::new(object) };
        return Box::into_raw(Box::new(header)).cast();
    };
    // SAFETY: `oldest` returns an allocated header that is freed only by `keep`.
    let reused = unsafe { &*header };
    reused.object.store(object, Relaxed);
    reused.tag.store(H::KIND.live(), Relaxed);
    header.cast()
}

/// Borrows the object of a handle. NULL and handles that are released or of another type are
/// errors.
#[inline]
pub(crate) fn object_of<H: Handle>(handle: Option<&H>, place: Place) -> Result<&H::Object> {
    // SAFETY: the object lives until the handle is released, which does not happen during the call,
    // by the rules of the C header.
    live(handle, place).map(|object| unsafe { &*object })
}

/// Like [`object_of`], for changing it.
///
/// # Safety
/// The handle is NULL or one that [`hand_out`] returned, and nothing else uses its object during
/// `'a`.
pub(crate) unsafe fn object_mut<'a, H: Handle>(handle: *mut H, place: Place) -> Result<&'a mut H::Object> {
    // SAFETY: NULL gives `None`; anything else points to a header.
    let header = unsafe { handle.as_ref() };
    // SAFETY: as in `object_of`, and unique by this function's contract. The pointer is that of
    // `Box::into_raw`, so it may be written through.
    live(header, place).map(|object| unsafe { &mut *object })
}

/// Returns the object of a handle after checking the tag: `hand_out` made the handle for this type,
/// which no other type shares, and it is not released.
#[inline]
fn live<H: Handle>(handle: Option<&H>, place: Place) -> Result<*mut H::Object> {
    let header = match handle {
        Some(handle) => handle.header(),
        None => return Err(null(place)),
    };
    match header.tag.load(Relaxed) == H::KIND.live() {
        true => Ok(header.object.load(Relaxed).cast()),
        false => Err(misuse::<H>(header, place)),
    }
}

/// Releases a handle and returns its object. NULL is nothing. Misuse is logged, and is nothing too.
///
/// # Safety
/// The caller gives up the handle: no reference to the object is used any more.
pub(crate) unsafe fn release<H: Handle>(handle: *mut H, place: Place) -> Option<Box<H::Object>> {
    // SAFETY: NULL gives `None`; anything else points to a header, by the rules of the C header.
    let header = unsafe { handle.as_ref() }?.header();
    let (live, released) = (H::KIND.live(), H::KIND.released());
    if header.tag.compare_exchange(live, released, AcqRel, Relaxed).is_err() {
        log(&misuse::<H>(header, place));
        return None;
    }
    let object: *mut H::Object = header.object.swap(null_mut(), Relaxed).cast();
    RELEASED_HEADERS.keep(handle.cast());
    // SAFETY: `hand_out` got the pointer from `Box::into_raw`, for this type of handle by its tag.
    // The exchange above succeeds once, and the caller gives up all references.
    Some(unsafe { Box::from_raw(object) })
}

/// Logs a misuse in a function that cannot return an error.
#[cold]
pub(crate) fn log(error: &Error) {
    Logger::log_always(Level::Error, &error.to_string());
}

#[cold]
fn null(place: Place) -> Error {
    Error::argument(format!("{} must not be NULL.", place.text()))
}

#[cold]
fn misuse<H: Handle>(header: &Header, place: Place) -> Error {
    let (tag, wanted) = (header.tag.load(Relaxed), H::KIND.name());
    let is_released = tag & RELEASED != 0;
    let found = match Kind::ALL.iter().find(|(kind, _)| tag & !RELEASED == kind.live()) {
        Some((_, name)) if is_released => format!("a released {name}"),
        Some((_, name)) => format!("a {name}"),
        None => "not a handle of this library".to_owned(),
    };
    let state = match is_released {
        true => " that is still in use: release a handle once, after its last use",
        false => "",
    };
    Error::argument(format!("{} is {found}.", place.text()))
        .with_detail(format!("Expected a {wanted}{state}."))
}

/// Number of headers that are kept before they are used again.
const KEPT: usize = 4096;

/// The released headers: a queue without locks, because a fork may happen at any time.
struct ReleasedHeaders {
    /// Twice as many as are kept, for headers that are released while none is needed.
    places: [AtomicPtr<Header>; 2 * KEPT],
    /// Number of headers added so far. The next one goes to this place, modulo the number of
    /// places.
    added: AtomicUsize,
    /// Number of headers removed so far.
    removed: AtomicUsize,
}

static RELEASED_HEADERS: ReleasedHeaders = ReleasedHeaders::new();

impl ReleasedHeaders {
    const fn new() -> ReleasedHeaders {
        ReleasedHeaders {
            places: [const { AtomicPtr::new(null_mut()) }; 2 * KEPT],
            added: AtomicUsize::new(0),
            removed: AtomicUsize::new(0),
        }
    }

    /// Adds a header, which this queue owns now.
    fn keep(&self, header: *mut Header) {
        let at = self.added.fetch_add(1, Relaxed);
        let oldest = self.places[at % self.places.len()].swap(header, AcqRel);
        if !oldest.is_null() {
            // The places are full: `oldest` was added one round ago, so later ones come next.
            self.removed.fetch_max((at + 1).saturating_sub(self.places.len()), Relaxed);
            // SAFETY: the header comes from `Box::into_raw` in `hand_out`, and the exchange made
            // this call its only owner.
            drop(unsafe { Box::from_raw(oldest) });
        }
    }

    /// Removes the oldest header if more than [`KEPT`] are kept. `None` may also mean that another
    /// thread is changing the queue.
    fn oldest(&self) -> Option<*mut Header> {
        let at = self.removed.load(Relaxed);
        if self.added.load(Relaxed).saturating_sub(at) <= KEPT {
            return None;
        }
        self.removed.compare_exchange(at, at + 1, Relaxed, Relaxed).ok()?;
        let header = self.places[at % self.places.len()].swap(null_mut(), AcqRel);
        (!header.is_null()).then_some(header)
    }
}

/// A handle that a test releases when it ends.
#[cfg(test)]
pub(crate) struct Owned<H: Handle>(pub(crate) *mut H);

#[cfg(test)]
impl<H: Handle> Drop for Owned<H> {
    fn drop(&mut self) {
        // SAFETY: the test does not use the handle any more.
        drop(unsafe { release(self.0, argument!("handle")) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{cntk_reader_buffer, cntk_reader_buffer_free, cntk_reader_buffer_get_bytes};
    use crate::canceller::{cntk_reader_canceller, cntk_reader_canceller_cancel};
    use crate::error::{
        cntk_reader_error, cntk_reader_error_describe, cntk_reader_error_free, cntk_reader_error_get_cause,
        cntk_reader_error_get_text,
    };
    use crate::options::{
        Options, cntk_reader_options, cntk_reader_options_set_flag, cntk_reader_options_set_section,
    };
    use crate::reader::cntk_reader_chunk_size_suggest;
    use crate::status::cntk_reader_status::{self, CNTK_READER_STATUS_INVALID_ARGUMENT};
    use cntk_reader_core::option::FrontEnd;
    use cntk_reader_core::testing::cases;
    use std::collections::HashSet;
    use std::ffi::CStr;
    use std::mem::MaybeUninit;
    use std::sync::Mutex;

    fn buffer() -> *mut cntk_reader_buffer {
        hand_out(Box::new(vec![1, 2, 3]))
    }

    /// Makes a call that must fail, and returns its error's text.
    fn refusal(
        call: impl FnOnce(Option<&mut MaybeUninit<*mut cntk_reader_error>>) -> cntk_reader_status,
    ) -> String {
        let mut place = MaybeUninit::uninit();
        assert_eq!(call(Some(&mut place)), CNTK_READER_STATUS_INVALID_ARGUMENT);
        // SAFETY: the call failed, so it has written an error.
        let error = Owned(unsafe { place.assume_init() });
        // SAFETY: the text lives as long as the error.
        let text = unsafe { CStr::from_ptr(cntk_reader_error_get_text(error.0.as_ref())) };
        text.to_str().expect("UTF-8").to_owned()
    }

    #[test]
    fn released_handle_is_an_error() {
        let handle = buffer();
        // SAFETY: the handle is released once; then it is refused.
        unsafe {
            cntk_reader_buffer_free(handle);
            let (mut bytes, mut size) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            let text = refusal(|error| {
                let (bytes, size) = (Some(&mut bytes), Some(&mut size));
                cntk_reader_buffer_get_bytes(handle.as_ref(), bytes, size, error)
            });
            assert_eq!(
                text,
                "The argument 'buffer' of cntk_reader_buffer_get_bytes is a released cntk_reader_buffer. \
                 Expected a cntk_reader_buffer that is still in use: release a handle once, after its \
                 last use."
            );
        }
    }

    #[test]
    fn null_is_an_error_that_names_the_function() {
        let mut ends = MaybeUninit::uninit();
        let text = refusal(|error| cntk_reader_canceller_cancel(None, Some(&mut ends), error));
        assert_eq!(text, "The argument 'canceller' of cntk_reader_canceller_cancel must not be NULL.");
    }

    #[test]
    fn handle_of_another_type_is_an_error() {
        let (buffer, mut ends, mut bytes) = (Owned(buffer()), MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: headers of all types have one layout, so the calls refuse the handle.
        unsafe {
            let canceller = buffer.0.cast::<cntk_reader_canceller>().as_ref();
            let text = refusal(|error| cntk_reader_canceller_cancel(canceller, Some(&mut ends), error));
            assert_eq!(
                text,
                "The argument 'canceller' of cntk_reader_canceller_cancel is a cntk_reader_buffer. \
                 Expected a cntk_reader_canceller."
            );
            let reader = buffer.0.cast::<crate::reader::cntk_reader>();
            let text =
                refusal(|error| cntk_reader_chunk_size_suggest(reader.as_ref(), 1, Some(&mut bytes), error));
            assert!(text.starts_with("The argument 'reader' of cntk_reader_chunk_size_suggest is"), "{text}");
            let (options, key) = (buffer.0.cast::<cntk_reader_options>(), c"a".as_ptr());
            let text = refusal(|error| cntk_reader_options_set_flag(options, key, usize::MAX, 1, error));
            let expected = "The argument 'options' of cntk_reader_options_set_flag is a cntk_reader_buffer.";
            assert!(text.starts_with(expected), "{text}");
            let own = Owned(hand_out(Box::new(Options(Default::default(), FrontEnd::Cpp))));
            let section = options.as_ref();
            let text =
                refusal(|error| cntk_reader_options_set_section(own.0, key, usize::MAX, section, error));
            let expected =
                "The argument 'section' of cntk_reader_options_set_section is a cntk_reader_buffer.";
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn memory_of_others_is_no_handle() {
        let (zeros, mut ends) = ([0_u64; 2], MaybeUninit::uninit());
        // SAFETY: zeros are a header without a tag.
        let canceller = unsafe { zeros.as_ptr().cast::<cntk_reader_canceller>().as_ref() };
        let text = refusal(|error| cntk_reader_canceller_cancel(canceller, Some(&mut ends), error));
        assert!(
            text.contains(" is not a handle of this library. Expected a cntk_reader_canceller."),
            "{text}"
        );
    }

    #[test]
    fn misused_errors_have_a_fixed_text() {
        let buffer = Owned(buffer());
        // SAFETY: headers of all types have one layout, so the calls refuse the handle.
        unsafe {
            let error = buffer.0.cast::<cntk_reader_error>();
            let text = CStr::from_ptr(cntk_reader_error_get_text(error.as_ref()));
            assert!(text.to_bytes().ends_with(b" is released, or not a cntk_reader_error."));
            assert!(cntk_reader_error_get_cause(error.as_ref()).is_null());
            let mut info = MaybeUninit::<crate::error::cntk_reader_error_info>::zeroed();
            (*info.as_mut_ptr()).struct_size = size_of_val(&info);
            let status = cntk_reader_error_describe(error.as_ref(), info.as_mut_ptr());
            assert_eq!(status, CNTK_READER_STATUS_INVALID_ARGUMENT);
            cntk_reader_error_free(error);
        }
        // SAFETY: a live handle.
        let content = object_of(unsafe { buffer.0.as_ref() }, argument!("buffer")).expect("still live");
        assert_eq!(content, &[1, 2, 3]);
    }

    #[test]
    fn two_releases_drop_once() {
        let handle = buffer();
        // SAFETY: a handle of this test, which nothing else uses.
        let release = |_| unsafe { release(handle, argument!("handle")) }.is_some();
        assert_eq!([0, 1, 2].map(release), [true, false, false]);
        // SAFETY: NULL is allowed.
        unsafe { cntk_reader_buffer_free(null_mut()) };
    }

    /// Makes a header outside of any queue.
    fn header(tag: u64) -> *mut Header {
        Box::into_raw(Box::new(Header { tag: AtomicU64::new(tag), object: AtomicPtr::new(null_mut()) }))
    }

    /// Frees a header that no queue owns any more, and returns its tag.
    fn tag_of(header: *mut Header) -> u64 {
        // SAFETY: made by `header`, and owned by the caller.
        unsafe { Box::from_raw(header) }.tag.into_inner()
    }

    impl Drop for ReleasedHeaders {
        fn drop(&mut self) {
            for place in &self.places {
                let header = place.load(Relaxed);
                if !header.is_null() {
                    tag_of(header);
                }
            }
        }
    }

    #[test]
    fn headers_are_used_again_oldest_first() {
        let released = ReleasedHeaders::new();
        (0..KEPT as u64).for_each(|tag| released.keep(header(tag)));
        assert!(released.oldest().is_none());
        released.keep(header(KEPT as u64));
        assert_eq!(released.oldest().map(tag_of), Some(0));
        assert!(released.oldest().is_none());
        // More than there is room for: the oldest ones are freed.
        (0..3 * KEPT as u64).for_each(|tag| released.keep(header(10_000 + tag)));
        assert_eq!(released.oldest().map(tag_of), Some(10_000 + KEPT as u64));
    }

    #[test]
    fn threads_share_the_queue() {
        let (released, in_use) = (ReleasedHeaders::new(), Mutex::new(HashSet::new()));
        let in_use = || in_use.lock().expect("no panic");
        let work = || {
            for _ in 0..cases(40_000) {
                let header = released.oldest().unwrap_or_else(|| header(0));
                assert!(in_use().insert(header.addr()), "two threads got one header");
                assert!(in_use().remove(&header.addr()));
                released.keep(header);
            }
        };
        std::thread::scope(|scope| [(); 4].map(|()| drop(scope.spawn(work))));
    }
}
