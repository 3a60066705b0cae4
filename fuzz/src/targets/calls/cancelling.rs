//! The canceller of readers. It is used between calls, where there is nothing to cancel, and by
//! callbacks within calls, so that the cancelled calls are always the same.

use super::made::{check, given_up, taken};
use crate::choices::Choices;
use cntk_reader_capi::canceller::*;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// State shared by the calls and by callbacks on any thread.
struct CancellerState {
    canceller: Option<Box<cntk_reader_canceller>>,
    /// Whether a callback has requested cancellation since the call began.
    was_tried: bool,
}

static SHARED: Mutex<CancellerState> = Mutex::new(CancellerState { canceller: None, was_tried: false });

fn shared() -> MutexGuard<'static, CancellerState> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the canceller of the first readers.
pub fn begin() {
    let mut place = MaybeUninit::new(null_mut());
    cntk_reader_canceller_create(Some(&mut place), None);
    shared().canceller = taken(place);
}

/// Marks the beginning of a call.
pub fn begin_call() {
    shared().was_tried = false;
}

/// Whether a callback has requested cancellation of the call.
pub fn was_tried() -> bool {
    shared().was_tried
}

/// Returns the canceller for a reader, or NULL. Only [`change`] and [`free`] free it, and callbacks
/// do not call them.
pub fn pointer() -> *const cntk_reader_canceller {
    shared().canceller.as_deref().map_or(null(), |canceller| &raw const *canceller)
}

/// Cancels the call in progress, if there is one. For callbacks.
pub fn cancel() {
    // Under the lock, so that the next call does not begin in between.
    let mut shared = shared();
    shared.was_tried = true;
    let mut ends = MaybeUninit::uninit();
    _ = cntk_reader_canceller_cancel(shared.canceller.as_deref(), Some(&mut ends), None);
}

/// Replaces the canceller by one that open readers do not know, frees it, or uses it between calls.
pub fn change(choices: &mut Choices<'_>) {
    match choices.below(4) {
        0 => free(),
        1 => {
            let mut place = MaybeUninit::new(null_mut());
            check(choices, |error| cntk_reader_canceller_create(Some(&mut place), error));
            let before = std::mem::replace(&mut shared().canceller, taken(place));
            // SAFETY: the handle is freed only here.
            unsafe { cntk_reader_canceller_free(given_up(before)) };
        }
        _ => {
            // No call is in progress, so nothing is cancelled: neither work ahead of the next call,
            // nor later calls.
            let mut ends = MaybeUninit::new(7);
            let canceller = shared().canceller.take();
            let is_done = check(choices, |error| {
                cntk_reader_canceller_cancel(canceller.as_deref(), Some(&mut ends), error)
            });
            shared().canceller = canceller;
            assert_eq!(is_done, shared().canceller.is_some(), "without a canceller it is an error");
            // SAFETY: `ends` was initialized above.
            let ends = unsafe { ends.assume_init() };
            assert!(!is_done || ends == 0, "a call has ended that was not in progress");
        }
    }
}

/// Frees the canceller.
pub fn free() {
    let canceller = shared().canceller.take();
    // SAFETY: the handle is freed only here.
    unsafe { cntk_reader_canceller_free(given_up(canceller)) };
}
