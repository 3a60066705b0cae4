//! Builds that later steps of `cargo xtask test` wait for, begun beside the first steps.
//!
//! Compiling one large crate keeps one processor busy for most of the time, and the tests after it sleep now and then. So the library in
//! release mode, the modules for CNTK, the fuzz targets and the tool, which are compiled in folders of their own, are built while
//! the first steps run. A step that needs one of them waits for the lock that it is built under, and finds it ready. What fails
//! here is built again by its step, which says why.

use crate::project::Project;
use crate::{dist, dropin, fuzz};
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The builds, in the order in which steps need them.
const BUILDS: [fn(&Project) -> Result<()>; 4] = [
    |project| dist::archive(project).map(drop),
    fuzz::build_ahead,
    dropin::build_ahead,
    |project| dist::tool_program(project).map(drop),
];

/// The thread that builds. It ends with this value, after the build at hand.
pub struct Ahead {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Begins, if there is more than one processor.
    pub fn start(project: &Project) -> Ahead {
        let is_over = Arc::new(AtomicBool::new(false));
        let (project, stop) = (project.clone(), Arc::clone(&is_over));
        let work = move || {
            for build in BUILDS {
                if stop.load(Ordering::Relaxed) || build(&project).is_err() {
                    return;
                }
            }
        };
        let thread = (crate::machine::cores() > 1).then(|| std::thread::spawn(work));
        Ahead { is_over, thread }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it has not built, nobody needs any more.
            let _ = thread.join();
        }
    }
}
