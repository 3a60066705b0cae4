//! A made-up CNTK for real modules: a library with the symbols that they need, and files with the
//! names of CNTK's own modules. The loader accepts it; nothing in it runs.

use crate::{HOST_SYMBOLS, Host, MODULES};
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use tooling::project::Project;

/// Makes the folder of libraries of this release of CNTK, whose modules were built.
pub fn make(project: &Project, release: &str, folder: &Path) -> Result<()> {
    let host = Host::by_version(release)?;
    std::fs::create_dir_all(folder)?;
    let mut symbols = BTreeSet::new();
    for module in &MODULES {
        let file = host.folder(project).join(module.file(host));
        let needed = project.run("nm").args(["-D", "-u", "--format=posix"]).arg(file).output()?;
        let needed = needed.lines().filter_map(|line| line.split_whitespace().next());
        let own = needed.filter(|name| HOST_SYMBOLS.iter().any(|start| name.starts_with(start)));
        symbols.extend(own.map(str::to_owned));
        std::fs::write(folder.join(module.file(host)), format!("CNTK's {}\n", module.stem))?;
    }
    ensure!(!symbols.is_empty(), "The modules for CNTK {release} need nothing of it.");
    let mut code = ".text\n".to_owned();
    for symbol in symbols {
        writeln!(code, ".globl {symbol}\n.type {symbol},@function\n{symbol}: ret")?;
    }
    code += ".section .note.GNU-stack,\"\",@progbits\n";
    let source = folder.with_extension("s");
    std::fs::write(&source, code)?;
    let library = host.library();
    let run = project.run(&project.compiler()).args(["-shared", "-nostdlib"]);
    let run = run.arg(format!("-Wl,-soname,{library}")).arg("-o").arg(folder.join(&library));
    run.arg(source).go().map(drop)
}
