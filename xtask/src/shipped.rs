//! The step `shipped`: tests the library as users get it, fully optimized and without overflow
//! checks. Other steps compile quickly and check more.

use crate::packages;
use anyhow::Result;
use tooling::project::Project;
use tooling::{Tally, dist, drivers, libtest};

/// Replays golden records through the C++ header; in the long form also in Rust, with the model
/// tests.
pub fn step(project: &Project) -> Result<Tally> {
    let built = Project { quick: false, target: project.target.join("shipped"), ..project.clone() };
    let dist = built.part("library, as it is shipped", || dist::build(&built))?;
    built.part("drivers", || drivers::build(&built, &dist))?;
    let replayed = packages::replay(project, 1, &built.target.join("drivers"), &[])?;
    // The tests compile all crates again, which takes longer than the rest.
    if !project.long {
        return Ok(replayed);
    }
    let tests = dist::release(&built, "test").args(["--package", "cntk-reader"]);
    let tests = tests.args(["--test", "golden", "--test", "model"]);
    Ok(replayed.and(libtest(&tests.go()?)))
}
