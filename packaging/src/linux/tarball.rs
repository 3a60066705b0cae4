//! `package tarball`, `package tarball-aarch64`: what target/dist has, in one folder that works
//! wherever it is unpacked.

use super::{TARGET, dist};
use crate::bundle::{Bundle, LIBRARY, TOOL};
use crate::{Made, Packages};
use anyhow::{Result, ensure};
use tooling::project::{Project, empty_folder};
use tooling::{consumers, cross, dist::Dist};

/// Builds and tries the tarball for this machine's processor.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    make_for(project, packages, "x86_64-linux-gnu", TARGET)
}

/// Builds the tarball for 64-bit ARM, and tries it under an emulator.
pub fn make_aarch64(project: &Project, packages: &Packages) -> Result<Made> {
    make_for(&cross::aarch64(project)?, packages, "aarch64-linux-gnu", cross::TARGET)
}

fn make_for(project: &Project, packages: &Packages, platform: &str, target: &str) -> Result<Made> {
    let dist = dist(project)?;
    let bundle = Bundle { platform, ending: "tar.gz", target, crates: &[LIBRARY, TOOL] };
    let stage = project.target.join("packaging/stripped");
    empty_folder(&stage)?;
    super::copy_stripped(project, &dist, &stage)?;
    let folders = ["include", "lib", "bin", "share"].map(|part| stage.join(part));
    let packed = bundle.pack(project, packages, &folders)?;
    project.part("trial", || {
        packed.elsewhere(project, |unpacked, scratch| {
            consumers::check(project, &Dist { folder: unpacked.to_owned(), ..dist.clone() }, scratch)?;
            let tool = project.run_built(&unpacked.join("bin/cntk-reader"));
            let shown = tool.args(["info", "examples/data/digits.train.ctf"]).output()?;
            ensure!(shown.contains("1,437 sequences"), "The tool printed:\n{shown}");
            ensure!(unpacked.join("share/man/man1/cntk-reader.1").is_file(), "There is no manual page.");
            Ok(())
        })
    })?;
    let by = project.cross.as_ref().map_or(String::new(), |cross| format!(" Run by {}.", cross.emulator()));
    Ok(Made {
        files: packed.files,
        trials: vec![
            "Packing twice gives the same bytes.".to_owned(),
            format!(
                "Unpacked in a temporary folder, it builds the README's C++ program with CMake, with \
                 pkg-config and statically; each prints the README's output. The tool's `info` runs.{by}"
            ),
        ],
    })
}
