//! The recipe for conda-forge in packaging/conda, rendered for several platforms by rattler-build,
//! and its script run with stand-ins.
//!
//! Building the package takes compilers from a channel, which only conda-forge's own machines do.

use crate::source::{archive, program, stand_in};
use crate::{Made, Packages, python_with, scratch};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use tooling::dist;
use tooling::project::Project;
use tooling::tools::{self, Tool};

const RATTLER_BUILD: &str = "py-rattler-build==0.73.0";

/// The platforms that the recipe is for.
const PLATFORMS: [&str; 2] = ["linux-64", "linux-aarch64"];

/// Writes the recipe, and tries what can be tried without a channel.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    tools::need(project, &[Tool::Cxx, Tool::CMake])?;
    let archive = archive(project, packages)?;
    let sum = archive.checksum(project, "sha256sum")?;
    let recipe = archive.fill(project, "packaging/conda", "recipe.yaml", &sum, &packages.folder)?;
    let python = python_with(project, "conda", RATTLER_BUILD)?;
    let render = project.run(&python.to_string_lossy()).arg(project.path("packaging/conda/render.py"));
    let rendered = render.arg(&recipe).args(PLATFORMS).output()?;
    let rendered: Value = serde_json::from_str(&rendered)?;
    for platform in PLATFORMS {
        let recipe = &rendered[platform];
        ensure!(recipe["package"]["version"] == *archive.version, "{platform} has another version");
        let source = &recipe["source"][0];
        let name = format!("/v{0}/cntk-reader-{0}.tar.gz", archive.version);
        ensure!(source["url"].as_str().is_some_and(|url| url.ends_with(&name)), "{source} is not {name}");
        ensure!(source["sha256"] == *sum, "{source} has another checksum");
        // Compilers are named by the platform, so they show which one the recipe is rendered for.
        let needed = recipe["requirements"]["build"].as_array().context("nothing is needed")?;
        for compiler in [format!("gcc_{platform}"), format!("rust_{platform}")] {
            ensure!(needed.iter().any(|one| *one == *compiler), "{platform} needs no {compiler}");
        }
    }
    project.part("the recipe's script", || script(project, &rendered[PLATFORMS[0]], &archive.file))?;
    Ok(Made {
        files: vec![recipe, archive.file],
        trials: vec![
            format!("rattler-build renders the recipe for {}", PLATFORMS.join(" and ")),
            "the recipe's script, with stand-ins for cargo, installs what its test of contents names"
                .to_owned(),
            "not tried: a build by rattler-build, which takes compilers from a channel".to_owned(),
        ],
    })
}

/// Runs the recipe's script in the unpacked sources, and compares the installed files with the
/// recipe's own test.
fn script(project: &Project, recipe: &Value, archive: &Path) -> Result<()> {
    let dist = dist::build(project)?;
    let work = scratch(project, "conda")?;
    let programs = work.join("programs");
    stand_in(&dist, &programs)?;
    program(&programs, "cargo-bundle-licenses", "#!/bin/sh\necho licences > THIRDPARTY.yml\n")?;
    project.run("tar").arg("-xzf").arg(archive).arg("-C").arg(&work).go()?;
    let sources = work.join(format!("cntk-reader-{}", dist.version));
    let lines = recipe["build"]["script"]["content"].as_array().context("the recipe has no script")?;
    let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
    let prefix = work.join("prefix");
    let path = std::env::var("PATH").unwrap_or_default();
    let run = project.run("bash").args(["-e", "-u", "-c", &lines.join("\n")]).folder(&sources);
    // CMake would prefer the cargo of these folders.
    let run = run.env("CARGO_HOME", &programs).env("HOME", &work).env("CMAKE_ARGS", "");
    run.env("PATH", format!("{}:{path}", programs.display())).env("PREFIX", &prefix).go()?;

    let contents = &recipe["tests"][0]["package_contents"];
    let mut checked = 0;
    for (part, folder, before, after) in
        [("include", "include", "", ""), ("lib", "lib", "lib", ".so"), ("bin", "bin", "", "")]
    {
        for name in contents[part].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let file = prefix.join(folder).join(format!("{before}{name}{after}"));
            ensure!(file.is_file(), "The script has not installed {}", file.display());
            checked += 1;
        }
    }
    ensure!(checked == 4, "The recipe's test of contents has {checked} files.");
    ensure!(!prefix.join("lib/libcntk_reader.a").exists(), "The static library is installed.");
    for name in recipe["about"]["license_file"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        ensure!(sources.join(name).is_file(), "There is no {name} after the build.");
    }
    Ok(())
}
