//! Runs a test under many schedules.

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};
use std::sync::Arc;

/// Environment variable with the number of schedules of each test.
const SCHEDULES: &str = "CNTK_READER_SCHEDULES";

/// Default number of schedules: of a test of a single protocol, and of a test of whole readers. The
/// long form has a hundred times as many.
const DEFAULT: u64 = 1000;
const DEFAULT_OF_READERS: u64 = 250;

/// A tenth of the default number of schedules of an exhaustive test.
const DEFAULT_OF_ALL: u64 = 5000;

/// Environment variable with the seed of the first schedule.
const SEED: &str = "CNTK_READER_SCHEDULE_SEED";

/// Bytes of a thread's stack: opening a reader takes more than Shuttle's default.
const STACK: usize = 1 << 20;

/// Number of steps after which a schedule counts as endless.
const MAX_STEPS: usize = 1_000_000;

/// Maximum number of schedules of a test of whole readers: each takes some hundred times as long as
/// one of a single protocol.
const MAX_OF_READERS: u64 = 10_000;

/// Number of priority changes in the second half of the schedules. Most bugs need two or three.
const DEPTH: usize = 3;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

fn run<T: Fn() + Send + Sync + 'static>(scheduler: impl Scheduler + 'static, test: &Arc<T>) -> usize {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.silence_warnings = true;
    let test = Arc::clone(test);
    Runner::new(scheduler, config).run(move || test())
}

/// Runs a test under random schedules: half of them choose the next thread at random at each step,
/// the other half run the threads by random priorities that change at a few places.
pub fn random(what: &str, test: impl Fn() + Send + Sync + 'static) {
    random_times(what, number(SCHEDULES, DEFAULT), test);
}

/// [`random`] for whole readers.
pub fn random_readers(what: &str, test: impl Fn() + Send + Sync + 'static) {
    random_times(what, number(SCHEDULES, DEFAULT_OF_READERS).min(MAX_OF_READERS), test);
}

fn random_times(what: &str, schedules: u64, test: impl Fn() + Send + Sync + 'static) {
    let (schedules, seed) = (schedules as usize, number(SEED, 1));
    let test = Arc::new(test);
    let half = schedules.div_ceil(2);
    let done = run(RandomScheduler::new_from_seed(seed, half), &test)
        + run(PctScheduler::new_from_seed(seed, DEPTH, half), &test);
    println!("schedules: {what}: {done} of random order, seed {seed}");
}

/// Runs a test under every possible schedule, or the first ten times [`SCHEDULES`] of them.
pub fn all(what: &str, test: impl Fn() + Send + Sync + 'static) {
    let most = 10 * number(SCHEDULES, DEFAULT_OF_ALL) as usize;
    let done = run(DfsScheduler::new(Some(most), false), &Arc::new(test));
    let share = if done < most { "all" } else { "the first" };
    println!("schedules: {what}: {share} {done}");
}
