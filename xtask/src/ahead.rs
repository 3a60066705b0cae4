//! Builds in the background what later steps of `cargo xtask test --all` need.
//!
//! Compiling a large crate mostly uses one processor, and the tests after it sleep at times. So the
//! modules for CNTK are built, and PyTorch is downloaded, while the first steps run; in the long
//! form also the fuzz targets. A step that needs one of them waits for the lock under which it is
//! made. A failure is ignored here: the step tries again and reports it. The tool is not built
//! here, because cargo puts the program for its own tests in the same place.

use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tooling::project::Project;
use tooling::{python, pytorch};

type Task = fn(&Project) -> Result<()>;

/// The builds. Fuzz targets have their own target folder, so clippy and tests do not wait for them;
/// the rest uses the library that tests have compiled already.
const BUILDS: &[Task] =
    &[|project| if project.long { fuzz_runs::build_ahead(project) } else { Ok(()) }, dropin::modules];

/// The downloads.
const DOWNLOADS: &[Task] =
    &[|project| python::environment(project).map(drop), |project| pytorch::environment(project).map(drop)];

/// The background threads. Dropping the value stops them after their current task.
pub struct Ahead {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Ahead {
    /// Starts the threads, if there is more than one processor. A short run only needs the Python
    /// environment.
    pub fn start(project: &Project) -> Ahead {
        let project = Project { verbose: false, silent: true, ..project.clone() };
        let is_over = Arc::new(AtomicBool::new(false));
        let begin = |works: &'static [Task]| {
            let (project, stop) = (project.clone(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                for work in works {
                    if stop.load(Ordering::Relaxed) || work(&project).is_err() {
                        return;
                    }
                }
            })
        };
        let threads = match tooling::machine::cores() {
            0..=1 => Vec::new(),
            _ if project.short => vec![begin(&DOWNLOADS[..1])],
            _ => [BUILDS, DOWNLOADS].map(begin).into(),
        };
        Ahead { is_over, threads }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Unfinished tasks are no longer needed.
            let _ = thread.join();
        }
    }
}
