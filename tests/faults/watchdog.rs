//! Ends the process when nothing moves any more, and says what it was at.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two looks at the threads.
const INTERVAL: Duration = Duration::from_millis(500);

/// Looks without a sign of life after which the process is ended: a minute, far more than any case takes. Looks are counted and not
/// seconds, because a process that is stopped for a while, or that the machine has no time for, is not looked at either.
const PATIENCE: u32 = 120;

/// What some threads are at.
struct Workers {
    /// For each, what it is at, and the looks since its last sign of life.
    at: Vec<(String, u32)>,
    is_over: bool,
}

/// Watches threads until it is dropped.
pub struct Watchdog {
    workers: Arc<Mutex<Workers>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Begins to watch `count` threads.
    pub fn new(count: usize) -> Watchdog {
        let at = vec![(String::from("beginning"), 0); count];
        let workers = Arc::new(Mutex::new(Workers { at, is_over: false }));
        let watched = Arc::clone(&workers);
        let thread = std::thread::spawn(move || {
            loop {
                std::thread::park_timeout(INTERVAL);
                let mut workers = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if workers.is_over {
                    return;
                }
                workers.at.iter_mut().for_each(|(_, looks)| *looks += 1);
                if workers.at.iter().any(|(_, looks)| *looks > PATIENCE) {
                    eprintln!("Nothing moves any more.\n{}", report(&workers));
                    std::process::abort();
                }
            }
        });
        Watchdog { workers, thread: Some(thread) }
    }

    /// A sign of life: thread `number` is at this now.
    pub fn at(&self, number: usize, what: impl Into<String>) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.at[number] = (what.into(), 0);
    }

    /// The thread is still at what it was at.
    pub fn alive(&self, number: usize) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.at[number].1 = 0;
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// What all watched threads are at, and where the system sees each thread of the process.
fn report(workers: &Workers) -> String {
    let mut text = String::new();
    for (number, (what, looks)) in workers.at.iter().enumerate() {
        let time = (INTERVAL * *looks).as_secs();
        writeln!(text, "  {number}, for {time} s: {what}").expect("text");
    }
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let id = task.file_name();
        writeln!(text, "  thread {}, {}: in {}", id.display(), read("comm").trim(), read("wchan"))
            .expect("text");
    }
    text
}
