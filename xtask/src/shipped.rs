//! The step `shipped`: the library as users get it, fully optimized and without checks of
//! arithmetic. Other steps compile quickly and check more.

use crate::packages;
use anyhow::Result;
use tooling::project::Project;
use tooling::{Tally, dist, drivers, libtest};

/// Golden records through the C++ header, and in Rust beside the model.
pub fn step(project: &Project) -> Result<Tally> {
    let built = Project { quick: false, target: project.target.join("shipped"), ..project.clone() };
    let dist = built.part("library, as it is shipped", || dist::build(&built))?;
    built.part("drivers", || drivers::build(&built, &dist))?;
    let replayed = packages::replay(project, 1, &built.target.join("drivers"), &[])?;
    let tests = dist::release(&built, "test").args(["--package", "cntk-reader"]);
    let tests = tests.args(["--test", "golden", "--test", "model"]);
    Ok(replayed.and(libtest(&tests.go()?)))
}
