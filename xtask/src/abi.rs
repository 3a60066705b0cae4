//! Compares the ABI with the committed one: the list of symbols, and a dump of all types and
//! functions under `xtask/abi`.
//!
//! `abidiff` (Debian's abigail-tools) reads types from debug information. Rust's debug information
//! describes Rust, and a release build has little of it. So the comparison uses a library of stubs
//! in C: every function that the header declares, with an empty body, compiled with full debug
//! information. The header is generated from the Rust code (step `header`), and the real library
//! exports exactly the functions of the headers (step `symbols`), so the stubs have the ABI that
//! the library promises. The host header promises nothing and is left out.

use crate::header;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tooling::project::{Project, empty_folder};
use tooling::tools::{self, Tool};
use tooling::{Tally, dist};

/// The dump.
const DUMP: &str = "xtask/abi/libcntk_reader.abi";
/// The names of all functions, one per line.
const SYMBOLS: &str = "xtask/abi/symbols.txt";

/// Rewrites both files.
pub fn command(project: &Project) -> Result<()> {
    tools::need(project, &[Tool::Cxx, Tool::Abigail])?;
    let header = std::fs::read_to_string(project.path(dist::HEADER))?;
    let (stubs, dump) = (stubs(project, &header)?, project.path(DUMP));
    std::fs::create_dir_all(dump.parent().context("the dump is in a folder")?)?;
    abidw(project, &stubs, &dump)?;
    let mut symbols = header::functions(&header).join("\n");
    symbols.push('\n');
    std::fs::write(project.path(SYMBOLS), symbols)?;
    say!("{DUMP} and {SYMBOLS} written");
    Ok(())
}

/// The committed list of symbols.
pub fn symbols(project: &Project) -> Result<Vec<String>> {
    let text =
        std::fs::read_to_string(project.path(SYMBOLS)).with_context(|| format!("reading {SYMBOLS}"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Compares the header's ABI with the committed dump. Additions fail, too: they must be committed
/// to it.
pub fn check(project: &Project) -> Result<Tally> {
    let header = std::fs::read_to_string(project.path(dist::HEADER))?;
    let stubs = stubs(project, &header)?;
    let committed = project.path(DUMP);
    ensure!(committed.exists(), "{DUMP} is missing. cargo xtask abi writes it.");
    let run =
        project.run("abidiff").args(["--no-architecture", "--headers-dir2"]).arg(project.path("include"));
    let Err(report) = run.arg(&committed).arg(&stubs).go() else { return Tally::passed(1) };
    bail!(
        "The ABI is not the committed one ({DUMP}):\n{report:#}\nAs long as the ABI number stays the same, functions, enumerators \
         and members at the end of structs may be added, and nothing else may change. cargo xtask abi writes the files anew."
    )
}

fn abidw(project: &Project, library: &Path, to: &Path) -> Result<()> {
    let run = project.run("abidw").args(["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs"]);
    run.arg("--headers-dir")
        .arg(project.path("include"))
        .arg("--out-file")
        .arg(to)
        .arg(library)
        .go()
        .map(drop)
}

/// Builds the library of stubs.
fn stubs(project: &Project, header: &str) -> Result<PathBuf> {
    let folder = project.target.join("xtask/abi");
    empty_folder(&folder)?;
    let mut text = String::from("#include <cntk_reader.h>\n");
    // Enums that callers store in integers occur in no signature.
    for name in header::enums(header) {
        writeln!(text, "{name} stub_of_{name};")?;
    }
    for declaration in header::declarations(header) {
        writeln!(text, "{declaration} {{ __builtin_trap(); }}")?;
    }
    let (source, library) = (folder.join("stubs.c"), folder.join("libstubs.so"));
    std::fs::write(&source, text)?;
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let run = project.run(&compiler).args(["-std=c11", "-g", "-O0", "-fPIC", "-shared", "-w", "-I"]);
    // The dump is committed, so it must not contain paths of this machine.
    let run = run.arg(project.path("include")).arg(format!("-ffile-prefix-map={}=", folder.display()));
    let run = run.args(["-Wl,-soname,libcntk_reader.so", "-o"]);
    run.arg(&library).arg(&source).go()?;
    Ok(library)
}
