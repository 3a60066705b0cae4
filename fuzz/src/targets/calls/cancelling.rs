//! The canceller of readers. It is asked between calls, where it has nothing to end, and by callbacks within calls, so that the same
//! calls are cancelled each time.

use super::made::{check, taken};
use crate::choices::Choices;
use cntk_reader_capi::canceller::*;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What callbacks on any thread share with the calls.
struct Shared {
    canceller: Option<Box<cntk_reader_canceller>>,
    /// A callback has asked since the call began.
    was_tried: bool,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { canceller: None, was_tried: false });

fn shared() -> MutexGuard<'static, Shared> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the canceller that the first readers know.
pub fn begin() {
    let mut place = MaybeUninit::new(null_mut());
    cntk_reader_canceller_create(Some(&mut place), None);
    shared().canceller = taken(place);
}

/// A call begins.
pub fn begin_call() {
    shared().was_tried = false;
}

/// Whether a callback has asked to end the call.
pub fn was_tried() -> bool {
    shared().was_tried
}

/// The canceller for a reader, or NULL. Only [`change`] and [`free`] free it, which no callback calls.
pub fn pointer() -> *const cntk_reader_canceller {
    shared().canceller.as_deref().map_or(null(), |canceller| &raw const *canceller)
}

/// Ends the call in progress, if there is one. For callbacks.
pub fn cancel() {
    // With the lock, so that the next call does not begin in between.
    let mut shared = shared();
    shared.was_tried = true;
    let mut ends = MaybeUninit::uninit();
    _ = cntk_reader_canceller_cancel(shared.canceller.as_deref(), Some(&mut ends), None);
}

/// Makes another canceller, which readers that are open do not know, frees it, or asks it between calls.
pub fn change(choices: &mut Choices<'_>) {
    match choices.below(4) {
        0 => free(),
        1 => {
            let mut place = MaybeUninit::new(null_mut());
            check(choices, |error| cntk_reader_canceller_create(Some(&mut place), error));
            let before = std::mem::replace(&mut shared().canceller, taken(place));
            cntk_reader_canceller_free(before);
        }
        _ => {
            // Nothing is read ahead for a call that is over, and no call is in progress: none is ended, and none after this.
            let mut ends = MaybeUninit::new(7);
            let canceller = shared().canceller.take();
            let is_done = check(choices, |error| {
                cntk_reader_canceller_cancel(canceller.as_deref(), Some(&mut ends), error)
            });
            shared().canceller = canceller;
            assert_eq!(is_done, shared().canceller.is_some(), "without a canceller it is an error");
            // SAFETY: initialized above.
            let ends = unsafe { ends.assume_init() };
            assert!(!is_done || ends == 0, "a call has ended that was not in progress");
        }
    }
}

/// Frees the canceller.
pub fn free() {
    let canceller = shared().canceller.take();
    cntk_reader_canceller_free(canceller);
}
