//! Builds and downloads for later steps of `cargo xtask test --all`, begun beside the first steps.
//!
//! Compiling one large crate keeps one processor busy for most of the time, and the tests after it
//! sleep now and then. So the modules for CNTK, and in the long form the fuzz targets, are built
//! while the first steps run, and PyTorch is downloaded. A step that needs one of them waits for
//! the lock that it is made under, and finds it ready. A failure here is ignored: the step tries
//! again, and reports it. The tool is not built here: its own tests have cargo put another program
//! in the same place.

use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tooling::project::Project;
use tooling::{python, pytorch};

type Work = fn(&Project) -> Result<()>;

/// Builds. Fuzz targets are compiled in a folder of their own, so clippy and tests do not
/// have to wait for them; the rest is made of the library that tests have compiled by then.
const BUILDS: &[Work] =
    &[|project| if project.long { fuzz_runs::build_ahead(project) } else { Ok(()) }, dropin::modules];

/// Downloads.
const DOWNLOADS: &[Work] =
    &[|project| python::environment(project).map(drop), |project| pytorch::environment(project).map(drop)];

/// The threads that do it. They end with this value, after the work at hand.
pub struct Ahead {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Ahead {
    /// Begins, if there is more than one processor. A short run needs the environment of Python
    /// alone.
    pub fn start(project: &Project) -> Ahead {
        let project = Project { verbose: false, silent: true, ..project.clone() };
        let is_over = Arc::new(AtomicBool::new(false));
        let begin = |works: &'static [Work]| {
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
            // What it has not made, nobody needs any more.
            let _ = thread.join();
        }
    }
}
