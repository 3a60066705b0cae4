//! The C# example: compiled with Mono, and run on the digits.

use anyhow::{Result, ensure};
use tooling::project::Project;
use tooling::{Tally, dist};

/// Output of the example on success.
const EXPECTED_OUTPUT: [&str; 4] = [
    "first minibatch: features 64 x 32, labels 10 x 32 with 32 stored values",
    "epoch 2: accuracy 0.9",
    "the same weights",
    "line 2, stream features",
];

/// Builds and runs it.
pub fn check(project: &Project) -> Result<Tally> {
    let installed = dist::build(project)?;
    let folder = project.target.join("examples");
    std::fs::create_dir_all(&folder)?;
    let program = folder.join("TrainDigits.exe");
    let library = folder.join("CntkReader.dll");
    let compile = || project.run("mcs").arg("-warnaserror");
    let sources = ["Descriptions.cs", "Minibatch.cs", "Native.cs", "Reader.cs"];
    let sources = sources.map(|source| project.path("packaging/nuget").join(source));
    compile().arg("-target:library").arg(format!("-out:{}", library.display())).args(sources).go()?;
    let source = project.path("examples/csharp/TrainDigits.cs");
    let references = [format!("-r:{}", library.display()), format!("-out:{}", program.display())];
    compile().args(references).arg(source).go()?;
    let run = project.run("mono").arg(&program).arg(project.path("examples/data"));
    let printed = run.env("LD_LIBRARY_PATH", installed.folder.join("lib")).output()?;
    for line in EXPECTED_OUTPUT {
        ensure!(printed.contains(line), "`{line}` is not in what the example printed:\n{printed}");
    }
    Tally::passed(EXPECTED_OUTPUT.len())
}
