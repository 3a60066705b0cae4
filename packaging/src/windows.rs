//! `package windows`: the library for C and C++ and the tool for Windows, tried under Wine.

use crate::bundle::{Bundle, LIBRARY, TOOL};
use crate::{Made, Packages};
use anyhow::{Result, ensure};
use tooling::dist::Dist;
use tooling::platform::{Builder, WINDOWS};
use tooling::project::Project;
use tooling::tools::{self, Tool};
use tooling::windows;

/// Builds the zip file, and tries it.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    tools::need(project, &[Tool::Zip])?;
    let (builder, dist) = dist(project)?;
    builder.prepare_wine()?;
    let crates = &[LIBRARY, TOOL];
    let bundle = Bundle { platform: "x86_64-windows", ending: "zip", target: WINDOWS.target, crates };
    let packed =
        bundle.pack(project, packages, &["bin", "include", "lib"].map(|part| dist.folder.join(part)))?;
    project.part("trial", || {
        packed.elsewhere(project, |unpacked, scratch| {
            let dist = Dist { folder: unpacked.to_owned(), ..dist.clone() };
            windows::check_readme(project, &builder, &dist, scratch)?;
            let tool = builder.run(&unpacked.join("bin/cntk-reader.exe"));
            let shown = tool.args(["info", "examples/data/digits.train.ctf"]).output()?;
            ensure!(shown.contains("1,437 sequences"), "The tool printed:\n{shown}");
            Ok(())
        })
    })?;
    Ok(Made {
        files: packed.files,
        trials: vec![
            "Packing twice gives the same bytes.".to_owned(),
            "Unpacked in a temporary folder, it builds the README's C++ program with CMake and MinGW, which \
             prints the README's output under Wine. The tool's `info` runs under Wine."
                .to_owned(),
        ],
    })
}

/// Builds and installs the library and the tool below the target folder.
pub fn dist(project: &Project) -> Result<(Builder<'_>, Dist)> {
    let builder = Builder::new(project, WINDOWS)?;
    let built = builder.release()?;
    let dist = project.part("library for C and C++", || windows::install(project, &builder, &built))?;
    Ok((builder, dist))
}
