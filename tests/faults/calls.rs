//! Intercepts the system calls that this process makes for files.
//!
//! This program defines its own functions with the names of the C library's `open64`, `pread`,
//! `write`, `rename` and so on, and the linker prefers them. So every call for a file passes
//! through here, whether from the library under test, Rust's standard library or other crates: none
//! can be missed, and the library itself contains no code for it. Calls for files outside the
//! watched folders are passed on directly.

#![allow(unsafe_code, reason = "functions that stand before those of the C library")]

use crate::common::rng::Rng;
use libc::{c_char, c_int, c_uint, c_void, iovec, mode_t, off_t, size_t, ssize_t, timespec};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Opens a file for reading.
    Open,
    /// Asks for size and times.
    State,
    Read,
    /// Opens a file for writing.
    Create,
    Write,
    /// Changes the size.
    Resize,
    /// Waits until data are on the disk.
    Sync,
    /// Names or renames a file, or makes a folder.
    Name,
    Remove,
    Lock,
}

impl Operation {
    /// Returns whether the call leaves files unchanged.
    pub fn is_reading(self) -> bool {
        matches!(self, Operation::Open | Operation::State | Operation::Read)
    }

    /// Returns whether the call moves bytes.
    pub fn is_transfer(self) -> bool {
        matches!(self, Operation::Read | Operation::Write)
    }
}

/// The subfolder of the watched folder whose files change.
pub const DATA: &str = "data";

/// The fault that a call has.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// It fails with this `errno`.
    Fails(i32),
    /// It reads or writes at most this many bytes.
    Short(usize),
    /// The process is killed. A call that writes has written half of its bytes before.
    Kill,
    /// Before the call, this change is made to a file of the folder [`DATA`].
    Change(fn(&Path), &'static str),
}

impl Fault {
    /// Returns whether calls of this kind can have the fault.
    pub fn fits(self, operation: Operation) -> bool {
        match self {
            Fault::Short(_) => operation.is_transfer(),
            Fault::Fails(libc::ENOSPC) => {
                matches!(
                    operation,
                    Operation::Create
                        | Operation::Write
                        | Operation::Resize
                        | Operation::Sync
                        | Operation::Name
                )
            }
            // Renaming and removing are never interrupted: a file either exists or not.
            Fault::Fails(libc::EINTR) => !matches!(operation, Operation::Name | Operation::Remove),
            Fault::Fails(libc::EAGAIN) => operation.is_reading(),
            Fault::Fails(_) => true,
            Fault::Kill => !operation.is_reading(),
            Fault::Change(..) => operation.is_reading(),
        }
    }
}

/// The calls that have a fault.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub fault: Fault,
    /// The number of the first call that has it, from 0, among the calls that it fits.
    pub first: usize,
    /// Number of consecutive calls that have it.
    pub count: usize,
}

struct Watch {
    folder: PathBuf,
    plan: Option<Plan>,
    /// Calls so far that the fault of the plan fits.
    fitting: usize,
    /// Calls so far.
    calls: BTreeMap<Operation, usize>,
    /// The calls that had faults.
    injected: Vec<Operation>,
}

static WATCH: Mutex<Option<Watch>> = Mutex::new(None);
/// Whether a folder is watched.
static IS_WATCHING: AtomicBool = AtomicBool::new(false);

/// For each descriptor, 1 more than the number of its file's place; 0 if the file is not watched.
static DESCRIPTORS: [AtomicU32; 1 << 12] = [const { AtomicU32::new(0) }; 1 << 12];
/// Number of watched open descriptors.
static OPEN: AtomicU64 = AtomicU64::new(0);

/// One in this many reading calls has a transient fault; 0 for none.
static WEATHER: AtomicU64 = AtomicU64::new(0);
/// Calls that could have had a transient fault, and the transient and storm faults injected.
static GUSTS: AtomicU64 = AtomicU64::new(0);
static FAULTS: AtomicU64 = AtomicU64::new(0);

/// Places in the watched folder: its subfolders `0`, `1` ...; everything else belongs to the first
/// place.
pub const PLACES: usize = 16;
/// For each place, whether all reading calls fail.
static STORMS: [AtomicBool; PLACES] = [const { AtomicBool::new(false) }; PLACES];

/// Whether sleeping returns at once.
static IS_IMPATIENT: AtomicBool = AtomicBool::new(false);

/// Whether files without names (`O_TMPFILE`) are refused.
static KNOWS_NO_NAMELESS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread's calls are exempt.
    static IS_EXEMPT: Cell<bool> = const { Cell::new(false) };
}

fn watch() -> MutexGuard<'static, Option<Watch>> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts counting the calls for files in a folder, and injecting faults into them.
pub fn begin(folder: &Path, plan: Option<Plan>) {
    *watch() = Some(Watch {
        folder: folder.to_owned(),
        plan,
        fitting: 0,
        calls: BTreeMap::new(),
        injected: Vec::new(),
    });
    IS_WATCHING.store(true, Ordering::SeqCst);
}

/// Ends the faults; counting continues.
pub fn heal() {
    if let Some(watch) = &mut *watch() {
        watch.plan = None;
    }
}

/// The counted calls.
#[derive(Debug, Default)]
pub struct Counts {
    pub calls: BTreeMap<Operation, usize>,
    /// The calls that had faults.
    pub injected: Vec<Operation>,
}

impl Counts {
    /// Returns the number of calls that the fault fits.
    pub fn fitting(&self, fault: Fault) -> usize {
        self.calls.iter().filter(|(operation, _)| fault.fits(**operation)).map(|(_, count)| count).sum()
    }
}

/// Ends faults and counting.
pub fn end() -> Counts {
    IS_WATCHING.store(false, Ordering::SeqCst);
    watch()
        .take()
        .map_or_else(Counts::default, |watch| Counts { calls: watch.calls, injected: watch.injected })
}

/// Returns the number of open files in watched folders.
pub fn open_files() -> u64 {
    OPEN.load(Ordering::SeqCst)
}

/// Sets whether all sleeps of the process return at once.
pub fn skip_pauses(skip: bool) {
    IS_IMPATIENT.store(skip, Ordering::SeqCst);
}

/// Sets whether the file system refuses files without names, as some do.
pub fn refuse_nameless(refuse: bool) {
    KNOWS_NO_NAMELESS.store(refuse, Ordering::SeqCst);
}

/// Runs `work` with this thread's calls exempt.
pub fn exempt<R>(work: impl FnOnce() -> R) -> R {
    let before = IS_EXEMPT.replace(true);
    let result = work();
    IS_EXEMPT.set(before);
    result
}

/// From now on one reading call in `one_in` has a transient fault: it is short, interrupted, or
/// fails.
pub fn weather(one_in: u64) {
    WEATHER.store(one_in, Ordering::SeqCst);
}

/// Begins or ends a storm: every reading call in a place fails.
pub fn storm(place: usize, rages: bool) {
    STORMS[place].store(rages, Ordering::SeqCst);
}

/// Returns the number of transient and storm faults so far.
pub fn faults() -> u64 {
    FAULTS.load(Ordering::SeqCst)
}

/// Decides whether a reading call in a place has a transient or storm fault.
fn blow(place: usize) -> Option<Verdict> {
    const ERRORS: [i32; 4] = [libc::EIO, libc::ESTALE, libc::EAGAIN, libc::EINTR];
    if STORMS[place].load(Ordering::Relaxed) {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        return Some(Verdict::Fail(libc::EIO));
    }
    let one_in = WEATHER.load(Ordering::Relaxed);
    if one_in == 0 {
        return None;
    }
    let number = Rng::new(GUSTS.fetch_add(1, Ordering::Relaxed)).bits();
    if !number.is_multiple_of(one_in) {
        return None;
    }
    FAULTS.fetch_add(1, Ordering::Relaxed);
    let kind = (number / one_in) as usize % (ERRORS.len() + 1);
    Some(ERRORS.get(kind).map_or(Verdict::AtMost(1), |&errno| Verdict::Fail(errno)))
}

/// The decision about a call.
enum Verdict {
    Go,
    AtMost(usize),
    Fail(c_int),
    Die,
}

/// Decides about a call for a file in a place of the watched folder.
fn judge(operation: Operation, place: usize) -> Verdict {
    if IS_EXEMPT.get() {
        return Verdict::Go;
    }
    if operation.is_reading()
        && let Some(verdict) = blow(place)
    {
        return verdict;
    }
    let mut guard = watch();
    let Some(watch) = &mut *guard else { return Verdict::Go };
    *watch.calls.entry(operation).or_default() += 1;
    let Some(plan) = watch.plan.filter(|plan| plan.fault.fits(operation)) else { return Verdict::Go };
    let number = watch.fitting;
    watch.fitting += 1;
    if number < plan.first || number - plan.first >= plan.count {
        return Verdict::Go;
    }
    watch.injected.push(operation);
    match plan.fault {
        Fault::Fails(errno) => Verdict::Fail(errno),
        Fault::Short(most) => Verdict::AtMost(most),
        Fault::Kill => Verdict::Die,
        Fault::Change(change, file) => {
            let file = watch.folder.join(DATA).join(file);
            drop(guard);
            exempt(|| change(&file));
            Verdict::Go
        }
    }
}

/// Returns the place of a path, if it is in the watched folder.
///
/// # Safety
/// `path` must be NUL-terminated, as the intercepted call requires.
unsafe fn place_of(path: *const c_char) -> Option<usize> {
    if !IS_WATCHING.load(Ordering::Relaxed) || IS_EXEMPT.get() {
        return None;
    }
    // SAFETY: NUL-terminated by this function's contract.
    let path = unsafe { CStr::from_ptr(path) };
    let guard = watch();
    let inside = Path::new(OsStr::from_bytes(path.to_bytes())).strip_prefix(&guard.as_ref()?.folder).ok()?;
    let place = inside.iter().next().and_then(|name| name.to_str()?.parse().ok());
    Some(place.filter(|&place| place < PLACES).unwrap_or(0))
}

/// Decides about a call for an open file, which is passed on unless the file is watched.
fn judge_open(file: c_int, operation: Operation) -> Verdict {
    let watched = usize::try_from(file).ok().and_then(|file| DESCRIPTORS.get(file));
    match watched.map_or(0, |watched| watched.load(Ordering::Relaxed)) {
        0 => Verdict::Go,
        number => judge(operation, number as usize - 1),
    }
}

/// # Safety
/// Same as [`place_of`].
unsafe fn judge_path(path: *const c_char, operation: Operation) -> Verdict {
    // SAFETY: this function has the same contract.
    unsafe { place_of(path) }.map_or(Verdict::Go, |place| judge(operation, place))
}

fn fail(errno: c_int) -> c_int {
    // SAFETY: the function returns the address of this thread's `errno`, which is valid as long as
    // the thread lives.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn die() -> ! {
    // SAFETY: both functions only take numbers.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL);
        loop {
            libc::pause();
        }
    }
}

/// For calls that move no bytes: fails or dies as decided, or makes the system call.
macro_rules! pass {
    ($verdict:expr, $number:ident $(, $argument:expr)*) => {
        match $verdict {
            Verdict::Fail(errno) => fail(errno),
            Verdict::Die => die(),
            // SAFETY: the arguments come from the caller of the C library's function, whose
            // contract is the system call's own.
            Verdict::Go | Verdict::AtMost(_) => unsafe { libc::syscall(libc::$number $(, $argument)*) as c_int },
        }
    };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    let is_writing = flags & libc::O_ACCMODE != libc::O_RDONLY;
    if flags & libc::O_TMPFILE == libc::O_TMPFILE && KNOWS_NO_NAMELESS.load(Ordering::Relaxed) {
        return fail(libc::EOPNOTSUPP);
    }
    // SAFETY: callers of `open` pass a NUL-terminated path.
    let place = unsafe { place_of(path) };
    let operation = if is_writing { Operation::Create } else { Operation::Open };
    let verdict = place.map_or(Verdict::Go, |place| judge(operation, place));
    let file = pass!(verdict, SYS_openat, libc::AT_FDCWD, path, flags, mode);
    if let Some(descriptor) = usize::try_from(file).ok().and_then(|file| DESCRIPTORS.get(file))
        && let Some(place) = place
    {
        OPEN.fetch_add(1, Ordering::SeqCst);
        descriptor.store(place as u32 + 1, Ordering::SeqCst);
    }
    file
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close(file: c_int) -> c_int {
    let descriptor = usize::try_from(file).ok().and_then(|file| DESCRIPTORS.get(file));
    if descriptor.is_some_and(|descriptor| descriptor.swap(0, Ordering::SeqCst) > 0) {
        OPEN.fetch_sub(1, Ordering::SeqCst);
    }
    pass!(Verdict::Go, SYS_close, file)
}

/// Defines calls that move bytes.
macro_rules! transfer {
    ($name:ident, $number:ident, $operation:ident, $bytes:ty $(, $offset:ident: $kind:ty)?) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(file: c_int, bytes: $bytes, count: size_t $(, $offset: $kind)?) -> ssize_t {
            let go = |count: size_t| {
                // SAFETY: the arguments come from the caller of the C library's function; `count`
                // is at most the caller's.
                unsafe { libc::syscall(libc::$number, file, bytes, count $(, $offset)?) as ssize_t }
            };
            match judge_open(file, Operation::$operation) {
                Verdict::Go => go(count),
                Verdict::AtMost(most) => go(count.min(most)),
                Verdict::Fail(errno) => fail(errno) as ssize_t,
                Verdict::Die => {
                    go(count / 2);
                    die()
                }
            }
        }
    };
}

transfer!(read, SYS_read, Read, *mut c_void);
transfer!(pread, SYS_pread64, Read, *mut c_void, offset: off_t);
transfer!(pread64, SYS_pread64, Read, *mut c_void, offset: off_t);
transfer!(write, SYS_write, Write, *const c_void);
transfer!(pwrite64, SYS_pwrite64, Write, *const c_void, offset: off_t);

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(file: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let verdict = match judge_open(file, Operation::Write) {
        // Writing only the first part is a short write.
        Verdict::AtMost(_) => return pass!(Verdict::Go, SYS_writev, file, parts, count.min(1)) as ssize_t,
        verdict => verdict,
    };
    pass!(verdict, SYS_writev, file, parts, count) as ssize_t
}

#[unsafe(no_mangle)]
unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    state: *mut libc::statx,
) -> c_int {
    // The standard library calls it like this to probe for the system call.
    let verdict = if path.is_null() {
        Verdict::Go
    } else if folder == libc::AT_FDCWD {
        // SAFETY: it is not null, so it is NUL-terminated as `statx` requires.
        unsafe { judge_path(path, Operation::State) }
    } else {
        judge_open(folder, Operation::State)
    };
    pass!(verdict, SYS_statx, folder, path, flags, mask, state)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(file: c_int, size: off_t) -> c_int {
    pass!(judge_open(file, Operation::Resize), SYS_ftruncate, file, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(file: c_int) -> c_int {
    pass!(judge_open(file, Operation::Sync), SYS_fsync, file)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(file: c_int) -> c_int {
    pass!(judge_open(file, Operation::Sync), SYS_fdatasync, file)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn flock(file: c_int, operation: c_int) -> c_int {
    pass!(judge_open(file, Operation::Lock), SYS_flock, file, operation)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: callers of `rename` pass NUL-terminated paths.
    let verdict = unsafe { judge_path(to, Operation::Name) };
    pass!(verdict, SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: callers of `linkat` pass NUL-terminated paths.
    let verdict = unsafe { judge_path(to, Operation::Name) };
    pass!(verdict, SYS_linkat, from_folder, from, to_folder, to, flags)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: callers of `unlink` pass a NUL-terminated path.
    let verdict = unsafe { judge_path(path, Operation::Remove) };
    pass!(verdict, SYS_unlinkat, libc::AT_FDCWD, path, 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: callers of `mkdir` pass a NUL-terminated path.
    let verdict = unsafe { judge_path(path, Operation::Name) };
    pass!(verdict, SYS_mkdirat, libc::AT_FDCWD, path, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const timespec,
    rest: *mut timespec,
) -> c_int {
    if IS_IMPATIENT.load(Ordering::Relaxed) && !IS_EXEMPT.get() {
        return 0;
    }
    // SAFETY: the arguments come from the caller of the C library's function.
    match unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, flags, time, rest) } {
        0 => 0,
        // SAFETY: same as in `fail`. This function returns the number itself.
        _ => unsafe { *libc::__errno_location() },
    }
}
