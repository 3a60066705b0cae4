//! `package static-tool`: the tool linked with musl, which needs nothing but a kernel, with its
//! manual pages and completions.

use crate::bundle::{Bundle, TOOL};
use crate::{Made, Packages};
use anyhow::{Result, ensure};
use std::path::Path;
use tooling::cmake::install;
use tooling::platform::{Builder, MUSL, MUSL_AARCH64};
use tooling::project::{Project, empty_folder};
use tooling::tools::{self, Tool};
use tooling::{cross, dist};

/// A file that the trial reads.
const DIGITS: &str = "examples/data/digits.train.ctf";

/// Builds the tool for both processors.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    tools::need(project, &[Tool::Binutils, Tool::CrossCxx])?;
    let mut files = Vec::new();
    for (platform, name) in [(MUSL, "x86_64-linux-musl"), (MUSL_AARCH64, "aarch64-linux-musl")] {
        let builder = Builder::new(project, platform)?;
        let stage = builder.folder().join("tool");
        empty_folder(&stage)?;
        let (bin, share) = (stage.join("bin"), stage.join("share"));
        install(&builder.release()?.join("cntk-reader"), &bin.join("cntk-reader"))?;
        let strip = format!("{}strip", if platform == MUSL { "" } else { cross::PREFIX });
        project.run(&strip).arg("--strip-unneeded").arg(bin.join("cntk-reader")).go()?;
        dist::share(&share, || builder.run(&bin.join("cntk-reader")))?;
        let bundle = Bundle { platform: name, ending: "tar.gz", target: platform.target, crates: &[TOOL] };
        let packed = bundle.pack(project, packages, &[bin, share])?;
        project.part("trial", || {
            packed.elsewhere(project, |unpacked, scratch| {
                let program = unpacked.join("bin/cntk-reader");
                let shown = builder.run(&program).args(["info", DIGITS]).output()?;
                ensure!(shown.contains("1,437 sequences"), "The tool printed:\n{shown}");
                if platform == MUSL { alone(project, &program, scratch) } else { Ok(()) }
            })
        })?;
        files.extend(packed.files);
    }
    Ok(Made {
        files,
        trials: vec![
            "Packing twice gives the same bytes.".to_owned(),
            "The tool for x86-64 reads a file in a root folder that has nothing else; the one for 64-bit \
             ARM reads it under an emulator."
                .to_owned(),
        ],
    })
}

/// Runs the tool in a root folder without any libraries.
fn alone(project: &Project, program: &Path, root: &Path) -> Result<()> {
    for (file, name) in [(program, "tool"), (&project.path(DIGITS), "digits.ctf")] {
        std::fs::copy(file, root.join(name))?;
    }
    let shown = project.run("chroot").arg(root).args(["/tool", "info", "/digits.ctf"]).output()?;
    ensure!(shown.contains("1,437 sequences"), "The tool printed:\n{shown}");
    Ok(())
}
