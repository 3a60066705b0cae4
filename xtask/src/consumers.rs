//! Uses the installed library as its users do: with CMake and with pkg-config, shared and static,
//! after moving the installed tree. The programs are the ones in the README and the C header.

use anyhow::{Result, ensure};
use std::path::Path;
use tooling::dist::{self, Dist};
use tooling::project::{Project, empty_folder};
use tooling::{Tally, consumers};

/// Builds and runs all of them.
pub fn check(project: &Project) -> Result<Tally> {
    let installed = dist::build(project)?;
    let scratch = project.target.join("xtask/consumers");
    empty_folder(&scratch)?;
    let moved = Dist { folder: scratch.join("moved"), ..installed.clone() };
    project.run("cp").arg("-a").arg(&installed.folder).arg(&moved.folder).go()?;
    consumers::check(project, &moved, &scratch)?;
    header_program(project, &moved, &scratch)?;
    Tally::passed(4)
}

/// Builds and runs the program at the top of the C header, with strict warnings.
fn header_program(project: &Project, dist: &Dist, scratch: &Path) -> Result<()> {
    let header = std::fs::read_to_string(dist.folder.join("include/cntk_reader.h"))?;
    let lines = header.lines().skip_while(|line| !line.contains("#include <cntk_reader.h>"));
    let lines = lines.map_while(|line| line.strip_prefix(" *     ").or((line == " *").then_some("")));
    let (program, built) = (scratch.join("header.c"), scratch.join("header"));
    std::fs::write(&program, lines.map(|line| format!("{line}\n")).collect::<String>())?;
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let run = project.run(&compiler).args(["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror"]);
    let run = run.arg("-I").arg(dist.folder.join("include")).arg(&program).arg("-o").arg(&built);
    run.arg("-L").arg(dist.folder.join("lib")).arg("-lcntk_reader").go()?;
    let config = scratch.join("digits.cntk");
    std::fs::write(&config, CONFIG)?;
    let run = project.run(&built.to_string_lossy()).env("LD_LIBRARY_PATH", dist.folder.join("lib"));
    let printed = run.arg(&config).output()?;
    // 1437 digits in minibatches of 32, two streams each.
    let lines = printed.lines().filter(|line| line.starts_with("stream ") && line.contains(" samples, "));
    ensure!(lines.count() == 90, "The header's program printed:\n{printed}");
    let missing = project.run(&built.to_string_lossy()).env("LD_LIBRARY_PATH", dist.folder.join("lib"));
    let error = missing.arg(scratch.join("missing.cntk")).output();
    ensure!(
        error.is_err_and(|error| format!("{error:#}").contains("missing.cntk")),
        "It reads a missing file."
    );
    Ok(())
}

/// A configuration for the header's program.
const CONFIG: &str = r#"deserializers = ( [
  type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader" ; file = "examples/data/digits.train.ctf"
  input = [ features = [ dim = 64 ; format = "dense" ] ; labels = [ dim = 10 ; format = "sparse" ] ]
] )
"#;
