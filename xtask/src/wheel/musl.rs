//! Checks the wheel for Linux with musl, and tries it without a Python: none for musl is here.
//!
//! musl's dynamic linker loads the extension module into a program that has all of Python's
//! functions and variables in name only.

use super::audit;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use tooling::project::Project;
use tooling::tools::{self, Tool};

/// The extension module in the wheel.
const MODULE: &str = "cntk_reader/_native.abi3.so";

/// The library of musl's functions. musl's dynamic linker takes this name for itself.
const LIBRARY: &str = "libc.so";

/// The program, without its symbols.
const LOADER: &str = r#"#include <dlfcn.h>
#include <stdio.h>
int main(int count, char** arguments) {
  void* module = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  if (module == NULL || dlsym(module, "PyInit__native") == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  puts("loaded");
  return 0;
}
"#;

/// Checks that a wheel needs no library but musl's. auditwheel accepts it only under the name that
/// Alpine uses. It searches no folders here, because this machine's `libc.so` belongs to glibc.
pub fn auditwheel(project: &Project, wheel: &Path, platform: &str) -> Result<()> {
    let audit = audit(project, wheel, &["--ldpaths", ""])?;
    let libraries = audit["external_libs"].as_object().context("auditwheel lists libraries")?;
    let is_right = audit["sym_tag"] == *platform && libraries.keys().all(|name| name == LIBRARY);
    ensure!(is_right, "{} is not for {platform}. auditwheel says:\n{audit:#}", wheel.display());
    Ok(())
}

/// Loads the module of the unpacked wheel. The program is written beside it.
pub fn check(project: &Project, unpacked: &Path) -> Result<()> {
    tools::need(project, &[Tool::Musl])?;
    let module = unpacked.join(MODULE);
    let asked = project.run("nm").args(["--dynamic", "--undefined-only", "--format=posix"]);
    let asked = asked.arg(&module).output()?;
    let names = asked.lines().filter_map(|line| line.split(' ').next());
    let pythons: BTreeSet<&str> =
        names.filter(|name| name.starts_with("Py") || name.starts_with("_Py")).collect();
    ensure!(!pythons.is_empty(), "{} asks Python for nothing.", module.display());
    let mut source = LOADER.to_owned();
    for name in &pythons {
        writeln!(source, "char {name}[64];")?;
    }
    let (file, program) = (unpacked.join("load.c"), unpacked.join("load"));
    std::fs::write(&file, source).with_context(|| format!("writing {}", file.display()))?;
    project.run("musl-gcc").args(["-rdynamic", "-o"]).arg(&program).arg(&file).go()?;
    let loaded = project.run(&program.to_string_lossy()).arg(&module).output()?;
    ensure!(loaded.trim() == "loaded", "musl does not load {}: {loaded}", module.display());
    say!("  musl's dynamic linker loads the module; the package was not run: no Python for musl is here");
    Ok(())
}
