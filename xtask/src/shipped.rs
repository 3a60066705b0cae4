//! The step `shipped`: the library as users get it, fully optimized and without checks of
//! arithmetic. Other steps compile quickly and check more.

use crate::packages;
use anyhow::Result;
use tooling::project::Project;
use tooling::{Tally, dist, drivers, libtest};

/// Golden records through the C++ header; in the long form also in Rust, beside the model.
pub fn step(project: &Project) -> Result<Tally> {
    let built = Project { quick: false, target: project.target.join("shipped"), ..project.clone() };
    let dist = built.part("library, as it is shipped", || dist::build(&built))?;
    built.part("drivers", || drivers::build(&built, &dist))?;
    let replayed = packages::replay(project, 1, &built.target.join("drivers"), &[])?;
    // The tests are compiled with all crates once more, which takes longer than the rest.
    if !project.long {
        return Ok(replayed);
    }
    let tests = dist::release(&built, "test").args(["--package", "cntk-reader"]);
    let tests = tests.args(["--test", "golden", "--test", "model"]);
    Ok(replayed.and(libtest(&tests.go()?)))
}
