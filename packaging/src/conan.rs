//! The recipe for Conan in packaging/conan: creates the package with the shared and with the static
//! library, without any remote. Conan builds both by cargo from an exported copy of the checkout.

use crate::{Made, Packages, python_with, scratch};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tooling::dist;
use tooling::project::Project;
use tooling::tools::{self, Tool};

const CONAN: &str = "conan==2.34.0";

/// Expected output of the recipe's test program.
const PRINTED: &str = "3 samples, sum 21";

/// Creates both packages. There is nothing to publish: the recipe exports the checkout that it is
/// in.
pub fn make(project: &Project, _: &Packages) -> Result<Made> {
    tools::need(project, &[Tool::Cxx, Tool::CMake, Tool::Binutils])?;
    let python = python_with(project, "conan", CONAN)?;
    let conan = Conan { project, program: python.with_file_name("conan"), home: scratch(project, "conan")? };
    conan.run(&["profile", "detect"])?;
    let version = dist::version(project)?;
    let mut trials = Vec::new();
    for is_shared in [true, false] {
        let kind = if is_shared { "shared" } else { "static" };
        let printed = project.part(&format!("{kind} library"), || conan.create(is_shared))?;
        ensure!(printed.contains(PRINTED), "The test program did not print `{PRINTED}`:\n{printed}");
        let reference = format!("cntk-reader/{version}");
        ensure!(printed.contains(&reference), "Conan has not created {reference}:\n{printed}");
        conan.check(is_shared)?;
        trials
            .push(format!("conan create --no-remote, {kind}: builds by cargo, the test program reads data"));
    }
    Ok(Made { files: Vec::new(), trials })
}

struct Conan<'a> {
    project: &'a Project,
    program: PathBuf,
    /// The folder of its packages and profiles.
    home: PathBuf,
}

impl Conan<'_> {
    fn run(&self, arguments: &[&str]) -> Result<String> {
        let run = self.project.run(&self.program.to_string_lossy()).named("conan").args(arguments);
        // As in other release builds, so that the crates of others need not be compiled again.
        let run = run.env("CONAN_HOME", &self.home).envs(&dist::release_variables(self.project));
        run.go()
    }

    /// Creates the package with one kind of library, and runs the test program.
    fn create(&self, is_shared: bool) -> Result<String> {
        let option = format!("&:shared={}", if is_shared { "True" } else { "False" });
        let target = format!("user.cntk_reader:cargo_target_dir={}", self.project.target.display());
        let tests = format!("tools.cmake.cmake_layout:test_folder={}", self.tests(is_shared).display());
        let recipe = self.project.path("packaging/conan");
        let recipe = recipe.to_string_lossy();
        self.run(&["create", &recipe, "--no-remote", "-o", &option, "-c", &target, "-c", &tests])
    }

    fn tests(&self, is_shared: bool) -> PathBuf {
        self.home.join(if is_shared { "test-shared" } else { "test-static" })
    }

    /// Checks that the test program is linked against the kind of library that was asked for.
    fn check(&self, is_shared: bool) -> Result<()> {
        let found = self.project.run("find").arg(self.tests(is_shared)).args(["-name", "read", "-type", "f"]);
        let found = found.output()?;
        let program = Path::new(found.lines().next().context("Conan has built no test program")?);
        let dynamic = self.project.run("readelf").args(["--dynamic", "--wide"]).arg(program).output()?;
        let is_linked = dynamic.contains("libcntk_reader.so");
        ensure!(is_linked == is_shared, "{} is linked against the other library", program.display());
        Ok(())
    }
}
