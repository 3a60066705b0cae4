//! Work that is done by one thread or by several, whichever was faster when it was last tried.
//!
//! What fetching a sequence costs depends on users' code: frames of speech are copied in less than a microsecond, images are
//! decoded in milliseconds. To hand the first to other threads doubles their time, not to hand over the second multiplies it.

use crate::Result;
use crate::cancel::carried;
use crate::helpers::{Helpers, Team};
use std::time::{Duration, Instant};

/// Does work on the reading thread, and with the help of other threads where that pays. They are not the pool's: users' code
/// runs there, which may wait for a reader of this library, whose loading needs the pool.
#[derive(Default)]
pub(super) struct AdaptiveExecutor {
    /// How many more calls are handed over without a trial on the reading thread.
    without_trial: u32,
}

/// Work that one thread does in less time is not handed over: HTK frames in minibatches of 256 take half of this.
const QUICK: Duration = Duration::from_micros(300);

/// Work whose items take less time each is not handed over either: threads that fetch so small sequences get into each
/// other's way, and a minibatch of frames took twice as long.
const SLOW: Duration = Duration::from_micros(5);

/// Time of a trial before the rest is estimated: the first sequence alone may wait for cold caches.
const TRIAL: Duration = Duration::from_micros(30);

/// How many calls are handed over before the next trial: decoding one image on trial takes as long as all of a minibatch's
/// images take on many threads.
const HANDED_OVER: u32 = 31;

impl AdaptiveExecutor {
    /// Does something for each item, of which there are at most `most`. Of several failures, the first in the items' order
    /// is the result.
    pub(super) fn each<T: Send>(
        &mut self,
        helpers: Option<&mut Helpers>,
        mut items: impl Iterator<Item = T>,
        most: usize,
        work: impl Fn(T) -> Result<()> + Sync,
    ) -> Result<()> {
        let Some(helpers) = helpers else { return items.try_for_each(work) };
        match self.without_trial.checked_sub(1) {
            Some(left) => self.without_trial = left,
            None => {
                let start = Instant::now();
                for (done, item) in (1u32..).zip(items.by_ref()) {
                    work(item)?;
                    if done.is_power_of_two() {
                        let took = start.elapsed();
                        let pays = took >= SLOW * done
                            && took.as_secs_f64() * most as f64 > QUICK.as_secs_f64() * f64::from(done);
                        if took > TRIAL && pays {
                            self.without_trial = HANDED_OVER;
                            break;
                        }
                    }
                }
            }
        }
        let rest: Vec<T> = items.collect();
        if rest.is_empty() {
            return Ok(());
        }
        // All of them do their work, whichever fails.
        Team { threads: helpers.most(), helpers }.each(rest.into_iter(), carried(&work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Slow work is spread, quick work is not; either way each item is done once.
    #[test]
    fn every_item_is_done_once_by_whichever_thread() {
        for pause in [Duration::ZERO, 2 * QUICK] {
            for mut helpers in [None, Some(Helpers::new(4))] {
                let helps = helpers.is_some();
                let mut executor = AdaptiveExecutor::default();
                let done: Vec<_> = (0..40).map(|_| AtomicU32::new(0)).collect();
                for times in 1..=3 {
                    let work = |item: &AtomicU32| {
                        std::thread::sleep(pause);
                        item.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    };
                    executor.each(helpers.as_mut(), done.iter(), done.len(), work).expect("no failure");
                    assert!(done.iter().all(|item| item.load(Ordering::Relaxed) == times));
                }
                if !pause.is_zero() {
                    assert_eq!(executor.without_trial > 0, helps);
                }
            }
        }
    }

    #[test]
    fn the_first_failure_in_order_counts() {
        for pause in [Duration::ZERO, 2 * QUICK] {
            let (mut executor, mut helpers) = (AdaptiveExecutor::default(), Helpers::new(4));
            for _ in 0..2 {
                let work = |item: u32| {
                    std::thread::sleep(pause);
                    if item % 7 == 5 { Err(Error::data(item.to_string())) } else { Ok(()) }
                };
                let error = executor.each(Some(&mut helpers), 0..20, 20, work).expect_err("three items fail");
                assert_eq!(error.message(), "5");
            }
        }
    }
}
