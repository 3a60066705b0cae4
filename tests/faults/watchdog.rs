//! Ends the process when nothing moves any more, and says what it was at.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time without a sign of life after which the process is ended: far more than any case takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What some threads are at.
struct Workers {
    /// For each, what it is at, and since when.
    at: Vec<(String, Instant)>,
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
        let at = vec![(String::from("beginning"), Instant::now()); count];
        let workers = Arc::new(Mutex::new(Workers { at, is_over: false }));
        let watched = Arc::clone(&workers);
        let thread = std::thread::spawn(move || {
            loop {
                std::thread::park_timeout(Duration::from_millis(500));
                let workers = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if workers.is_over {
                    return;
                }
                if workers.at.iter().any(|(_, since)| since.elapsed() > PATIENCE) {
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
        workers.at[number] = (what.into(), Instant::now());
    }

    /// The thread is still at what it was at.
    pub fn alive(&self, number: usize) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.at[number].1 = Instant::now();
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
    for (number, (what, since)) in workers.at.iter().enumerate() {
        writeln!(text, "  {number}, for {} s: {what}", since.elapsed().as_secs()).expect("text");
    }
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let id = task.file_name();
        writeln!(text, "  thread {}, {}: in {}", id.display(), read("comm").trim(), read("wchan"))
            .expect("text");
    }
    text
}
