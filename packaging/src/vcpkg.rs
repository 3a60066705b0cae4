//! The port for vcpkg in packaging/vcpkg: its manifest is checked, and its portfile run by CMake with
//! stand-ins for vcpkg's functions, which do the same work.
//!
//! vcpkg itself is not in reach of package registries.

use crate::source::{Archive, archive, stand_in};
use crate::{Made, Packages, scratch};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::Path;
use tooling::cmake::install;
use tooling::dist;
use tooling::project::Project;
use tooling::tools::{self, Tool};

/// The port's files, below the root.
const PORT: &str = "packaging/vcpkg/ports/cntk-reader";

/// A program that uses the package: that of the recipe for Conan.
const PROGRAM: &str = "packaging/conan/test_package";

/// Expected output of the program.
const PRINTED: &str = "3 samples, sum 21\n";

/// Writes the port, and tries it with both kinds of libraries.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    tools::need(project, &[Tool::Cxx, Tool::CMake])?;
    let archive = archive(project, packages)?;
    let port = packages.folder.join("ports/cntk-reader");
    let sum = archive.checksum(project, "sha512sum")?;
    let manifest = archive.fill(project, PORT, "vcpkg.json", "", &port)?;
    let portfile = archive.fill(project, PORT, "portfile.cmake", &sum, &port)?;
    let usage = port.join("usage");
    install(&project.path(PORT).join("usage"), &usage)?;
    check_manifest(&std::fs::read_to_string(&manifest)?, &archive.version)?;
    for linkage in ["dynamic", "static"] {
        project.part(&format!("port, {linkage}"), || build(project, &port, &archive, linkage))?;
    }
    project.part("ports with mistakes", || refuse(project, &port, &archive))?;
    Ok(Made {
        files: vec![manifest, portfile, usage, archive.file],
        trials: vec![
            "the manifest has the fields of vcpkg's schema".to_owned(),
            "the portfile, with stand-ins for vcpkg's functions and cargo, makes both kinds of packages, \
             which a CMake project finds and uses"
                .to_owned(),
            "three ports with a mistake are refused".to_owned(),
            "not tried: vcpkg itself".to_owned(),
        ],
    })
}

/// Checks the manifest by the rules of vcpkg's schema that concern its fields.
fn check_manifest(text: &str, version: &str) -> Result<()> {
    let manifest: Value = serde_json::from_str(text)?;
    let fields = manifest.as_object().context("the manifest is no object")?;
    for (name, value) in fields {
        match name.as_str() {
            "name" => ensure!(value.as_str().is_some_and(is_name), "'{value}' is no name of a port"),
            "version" => ensure!(value == version, "The version is {value}, not {version}"),
            "description" | "homepage" | "supports" => ensure!(value.is_string(), "{name} is no text"),
            // An SPDX expression.
            "license" => ensure!(value == "MIT", "The licence is {value}"),
            "dependencies" => {
                for one in value.as_array().context("dependencies are a list")? {
                    ensure!(one["name"].as_str().is_some_and(is_name), "{one} has no name of a port");
                    // They run while the port is built.
                    ensure!(one["host"] == true, "{one} is not for the host");
                }
            }
            unknown => bail!("The schema of manifests has no '{unknown}', or this check does not know it"),
        }
    }
    for needed in ["name", "version", "description", "homepage", "license"] {
        ensure!(fields.contains_key(needed), "The manifest has no {needed}");
    }
    Ok(())
}

/// Whether a text is a name of a port: lower-case words with hyphens.
fn is_name(name: &str) -> bool {
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.split('-').all(is_word)
}

/// Runs the portfile, and uses the package that it makes.
fn build(project: &Project, port: &Path, archive: &Archive, linkage: &str) -> Result<()> {
    let work = scratch(project, &format!("vcpkg-{linkage}"))?;
    run_port(project, port, archive, linkage, &work)?;
    let packages = work.join("packages");
    let is_shared = packages.join("lib/libcntk_reader.so").exists();
    let is_static = packages.join("lib/libcntk_reader.a").exists();
    ensure!(is_shared != is_static && is_static == (linkage == "static"), "The package has other libraries");
    let built = work.join("program");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", packages.display());
    let run = project.run("cmake").arg(prefix).arg("-S").arg(project.path(PROGRAM)).arg("-B").arg(&built);
    run.go()?;
    project.run("cmake").arg("--build").arg(&built).go()?;
    let printed = project.run(&built.join("read").to_string_lossy()).folder(&work).output()?;
    ensure!(printed == PRINTED, "The program printed {printed}");
    Ok(())
}

fn run_port(project: &Project, port: &Path, archive: &Archive, linkage: &str, work: &Path) -> Result<String> {
    let cargo = stand_in(&dist::build(project)?, &work.join("programs"))?;
    let define = |name: &str, value: &Path| format!("-D{name}={}", value.display());
    let run = project.run("cmake").arg(define("PORT_DIR", port)).arg(define("ARCHIVE_FILE", &archive.file));
    let run = run.arg(define("CARGO", &cargo)).arg(format!("-DVERSION={}", archive.version));
    let run = run.arg(format!("-DLINKAGE={linkage}")).arg(define("WORK", work));
    run.arg("-P").arg(project.path("packaging/vcpkg/check/port.cmake")).go()
}

/// Checks that the stand-ins refuse a wrong checksum, an unknown function and an unknown argument.
fn refuse(project: &Project, port: &Path, archive: &Archive) -> Result<()> {
    let text = std::fs::read_to_string(port.join("portfile.cmake"))?;
    let sum = archive.checksum(project, "sha512sum")?;
    for (right, wrong, message) in [
        (sum.as_str(), "0", "has checksum"),
        ("vcpkg_cmake_install()", "vcpkg_cargo_install()", "vcpkg_cargo_install"),
        ("FILE_LIST", "FILES", "has no argument"),
    ] {
        let work = scratch(project, "vcpkg-wrong")?;
        let changed = text.replace(right, wrong);
        ensure!(changed != text, "The portfile has no {right}");
        install(&port.join("usage"), &work.join("port/usage"))?;
        std::fs::write(work.join("port/portfile.cmake"), changed)?;
        match run_port(project, &work.join("port"), archive, "static", &work) {
            Ok(_) => bail!("A portfile with {wrong} is not refused"),
            Err(error) => ensure!(format!("{error:#}").contains(message), "{wrong} fails with {error:#}"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_manifests_are_refused() {
        let right = r#"{"name": "cntk-reader", "version": "1.0.0", "description": "", "homepage": "",
            "license": "MIT", "dependencies": [{"name": "vcpkg-cmake", "host": true}]}"#;
        assert!(check_manifest(right, "1.0.0").is_ok());
        assert!(check_manifest(right, "1.0.1").is_err());
        for (from, to) in [
            ("cntk-reader", "CntkReader"),
            ("homepage", "home"),
            ("MIT", "mit"),
            ("true", "false"),
            ("[{", "{"),
        ] {
            assert!(check_manifest(&right.replace(from, to), "1.0.0").is_err(), "{to}");
        }
    }
}
