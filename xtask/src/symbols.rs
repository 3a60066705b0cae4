//! Checks that the shared library exports only its own names, under the SONAME that programs are
//! linked against.

use crate::{abi, header};
use anyhow::{Result, bail, ensure};
use tooling::dist::{self, Dist};
use tooling::project::Project;

/// Checks the installed library. Returns the number of checks: one for each exported symbol, and
/// one for each place with the version or the ABI number.
pub fn check(project: &Project, dist: &Dist) -> Result<usize> {
    let header = std::fs::read_to_string(project.path(dist::HEADER))?;
    let promised = header::functions(&header);
    let host = std::fs::read_to_string(project.path(dist::HOST_HEADER))?;
    let declared = [promised.clone(), header::functions(&host)].concat();
    let library = dist.library();
    let run = project.run("nm").args(["--dynamic", "--defined-only", "--format=posix"]);
    let symbols = run.arg(&library).output()?;
    let mut exported: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().next()).collect();
    exported.sort_unstable();
    compare("The library exports", &exported, "The headers declare", &declared)?;
    let committed = abi::symbols(project)?;
    let committed: Vec<&str> = committed.iter().map(String::as_str).collect();
    compare("The header declares", &promised, "The committed list (cargo xtask abi) has", &committed)?;
    Ok(exported.len() + versions(project, dist)?)
}

/// Fails if one of two lists has names that the other lacks.
fn compare(one: &str, names: &[&str], other: &str, others: &[&str]) -> Result<()> {
    let only = |some: &[&str], not: &[&str]| {
        some.iter().filter(|name| !not.contains(name)).copied().collect::<Vec<_>>().join(", ")
    };
    let (extra, missing) = (only(names, others), only(others, names));
    ensure!(
        extra.is_empty() && missing.is_empty(),
        "{one} and not the other: {extra}\n{other} and not the former: {missing}"
    );
    Ok(())
}

/// Checks that all places with the version or the ABI number agree.
fn versions(project: &Project, dist: &Dist) -> Result<usize> {
    let (soname, version) = (dist.soname(), &dist.version);
    let dynamic = project.run("readelf").args(["--dynamic", "--wide"]).arg(dist.library()).output()?;
    if !dynamic.lines().any(|line| line.contains("(SONAME)") && line.contains(&format!("[{soname}]"))) {
        bail!("The library's SONAME is not {soname}:\n{dynamic}");
    }
    let lib = dist.folder.join("lib");
    let places = [
        (lib.join("pkgconfig/cntk_reader.pc"), format!("Version: {version}\n")),
        (lib.join("pkgconfig/cntk_reader.pc"), format!("abi_version={}\n", dist.abi)),
        (lib.join("cmake/cntk_reader/cntk_reader-config.cmake"), format!("IMPORTED_SONAME \"{soname}\"")),
        (
            lib.join("cmake/cntk_reader/cntk_reader-config-version.cmake"),
            format!("set(PACKAGE_VERSION \"{version}\")"),
        ),
        (project.path(dist::HEADER), format!(" {soname}.")),
        (project.path("CHANGELOG.md"), format!("The C ABI number is {},", dist.abi)),
    ];
    for (file, text) in &places {
        let content = std::fs::read_to_string(file)?;
        ensure!(content.contains(text), "{} does not say '{}'", file.display(), text.trim());
    }
    Ok(places.len() + 1)
}
