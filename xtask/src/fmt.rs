//! `cargo xtask fmt`: formats the sources, or checks that they are formatted.

use anyhow::{Context, Result};
use tooling::dist::{HEADER, HOST_HEADER};
use tooling::project::Project;
use tooling::tools::{self, Tool};

/// Formats everything.
pub fn command(project: &Project) -> Result<()> {
    tools::need(project, &[Tool::ClangFormat])?;
    project.part("rustfmt", || rust(project, false))?;
    project.part("clang-format", || cpp(project, false)).map(drop)
}

/// Formats, or checks, the Rust code.
pub fn rust(project: &Project, check: bool) -> Result<()> {
    // The fuzz targets are a separate workspace.
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let run = project.cargo("fmt").args(["--all", "--manifest-path", manifest]);
        let run = if check { run.arg("--check") } else { run };
        run.go().context("Is rustfmt there (rustup component add rustfmt)? Otherwise: cargo xtask fmt")?;
    }
    Ok(())
}

/// Formats, or checks, the C and C++ code except the generated headers. Returns the number of
/// files.
pub fn cpp(project: &Project, check: bool) -> Result<usize> {
    let program = tools::clang_format(project).context("clang-format is gone")?;
    let mut files = project.files()?;
    files.retain(|file| {
        [".c", ".h", ".cc", ".cpp", ".hpp"].iter().any(|end| file.ends_with(end))
            && ![HEADER, HOST_HEADER].contains(&file.as_str())
    });
    if files.is_empty() {
        return Ok(0);
    }
    let run = project.run(&program).args(if check { &["--dry-run", "-Werror"][..] } else { &["-i"] });
    run.args(&files).go().context("cargo xtask fmt fixes it")?;
    Ok(files.len())
}
