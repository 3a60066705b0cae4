//! Builds C++ with CMake, against the installed library only.

use crate::cross::Cross;
use crate::dist::Dist;
use crate::project::Project;
use crate::tools::{self, Tool};
use crate::{Tally, machine};
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A CMake project with its build folder.
pub struct Build<'a> {
    project: &'a Project,
    folder: PathBuf,
}

impl<'a> Build<'a> {
    /// Configures a source folder (below the root) into a build folder (below the target folder).
    pub fn configure(
        project: &'a Project,
        dist: &Dist,
        source: &str,
        folder: &str,
        options: &[&str],
    ) -> Result<Build<'a>> {
        tools::need(project, &[Tool::Cxx, Tool::CMake])?;
        let folder = project.target.join(folder);
        let prefix = format!("-DCMAKE_PREFIX_PATH={}", dist.folder.display());
        // Unoptimized C++ compiles twice as fast.
        let kind = if project.quick { "Debug" } else { "RelWithDebInfo" };
        project
            .run("cmake")
            .args(["-Wno-dev", &format!("-DCMAKE_BUILD_TYPE={kind}"), &prefix])
            .args(options)
            .args(project.cross.iter().flat_map(Cross::cmake))
            .arg("-S")
            .arg(project.path(source))
            .arg("-B")
            .arg(&folder)
            .go()?;
        Ok(Build { project, folder })
    }

    /// Builds one target, or all.
    pub fn build(&self, target: Option<&str>) -> Result<()> {
        let run = self.project.run("cmake").arg("--build").arg(&self.folder);
        let run = run.args(["--parallel", &machine::cores().to_string()]);
        match target {
            Some(target) => run.args(["--target", target]).go(),
            None => run.go(),
        }
        .map(drop)
    }

    /// Returns the path of a file in the build folder.
    pub fn file(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// Runs the tests. Returns the number of tests that CTest knows.
    pub fn test<V: AsRef<OsStr>>(&self, variables: &[(&str, V)]) -> Result<Tally> {
        let run = self.project.run("ctest").folder(&self.folder);
        let run = run.args(["--output-on-failure", "--no-tests=error"]);
        let run = run.args(["--parallel", &machine::cores().to_string()]);
        let output = run.envs(variables).go()?;
        let line =
            output.lines().find(|line| line.contains("tests passed,")).context("CTest gave no summary")?;
        let passed = line.rsplit(' ').next().and_then(|count| count.parse().ok());
        Tally::passed(passed.with_context(|| format!("CTest's summary is `{line}`"))?)
    }
}

/// Copies a file and keeps its modification time, so that nothing built from it is built again.
pub fn install(from: &Path, to: &Path) -> Result<()> {
    ensure!(from.is_file(), "{} was not built", from.display());
    let folder = to.parent().context("a file has a folder")?;
    std::fs::create_dir_all(folder)?;
    // The file of a running program can be replaced, but not written to.
    let _ = std::fs::remove_file(to);
    std::fs::copy(from, to).with_context(|| format!("copying to {}", to.display()))?;
    std::fs::File::options().append(true).open(to)?.set_modified(std::fs::metadata(from)?.modified()?)?;
    Ok(())
}
