//! Ends the process if nothing makes progress, and reports the state of the threads.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two checks of the threads.
const INTERVAL: Duration = Duration::from_millis(500);

/// Checks without a sign of life after which the process is ended: a minute, far more than any case
/// takes. Checks are counted instead of seconds, because a suspended or starved process makes no
/// checks either.
const PATIENCE: u32 = 120;

/// The activities of the watched threads.
struct Workers {
    /// For each thread, its activity and the number of checks since its last sign of life.
    at: Vec<(String, u32)>,
    is_over: bool,
}

/// Watches threads until it is dropped.
pub struct Watchdog {
    workers: Arc<Mutex<Workers>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts watching `count` threads.
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

    /// Reports the activity of thread `number`, as a sign of life.
    pub fn at(&self, number: usize, what: impl Into<String>) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.at[number] = (what.into(), 0);
    }

    /// Reports a sign of life with unchanged activity.
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

/// Reports the activities of all watched threads, and where each thread of the process is according
/// to the system.
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
