//! Training in CNTK's Python: losses are equal to the last digit, even if another process continues
//! from a checkpoint.

use super::side::Side;
use anyhow::{Result, bail};
use std::path::PathBuf;
use tooling::Tally;
use tooling::project::{Project, empty_folder};

/// A program that trains.
struct Program {
    name: &'static str,
    script: &'static str,
    /// Its arguments after the folder and the number of epochs.
    arguments: fn(&Project) -> Vec<PathBuf>,
}

const PROGRAMS: [Program; 3] = [
    Program { name: "LSTM tagger", script: "train_tagger.py", arguments: |_| Vec::new() },
    Program {
        name: "LSTM tagger, truncated sequences",
        script: "train_tagger.py",
        arguments: |_| vec![PathBuf::from("5")],
    },
    Program {
        name: "digits",
        script: "train_digits.py",
        arguments: |project| vec![project.path("examples/data/digits.train.ctf")],
    },
];

const EPOCHS: usize = 3;

/// Trains every program on both sides, without and with an interruption.
pub fn compare(project: &Project, ours: &Side, cntk: &Side) -> Result<Tally> {
    let mut tally = Tally::default();
    for (number, program) in PROGRAMS.iter().enumerate() {
        let folder = format!("train{number}");
        let (ours, cntk) = (train(project, ours, program, &folder)?, train(project, cntk, program, &folder)?);
        match ours.iter().zip(&cntk).find(|(ours, cntk)| ours != cntk) {
            None if ours.len() == cntk.len() => tally.passed += 1,
            difference => {
                tally.failed += 1;
                let (ours, cntk) = difference.unwrap_or((&ours[0], &cntk[0]));
                say!("training, {}:\n  ours   {ours}\n  CNTK   {cntk}\n", program.name);
            }
        }
    }
    Ok(tally)
}

/// Returns the output of a program in three runs: the whole training; the first epoch; the other
/// epochs, in another process.
fn train(project: &Project, side: &Side, program: &Program, folder: &str) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for (part, epochs) in [("whole", EPOCHS), ("parts", 1), ("parts", EPOCHS)] {
        let folder = side.folder.join(folder).join(part);
        if (part, epochs) != ("parts", EPOCHS) {
            empty_folder(&folder)?;
        }
        let mut command = side.script(program.script);
        command.arg(&folder).arg(epochs.to_string()).args((program.arguments)(project));
        let output = command.output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // CNTK itself may crash when the interpreter exits, after the last line of the program.
        let may_crash = side.is_composed_by_cntk() && text.contains("weights ");
        if !output.status.success() && !may_crash {
            bail!("{} ({}):\n{}", program.script, output.status, String::from_utf8_lossy(&output.stderr));
        }
        lines.push(format!("{part}, {epochs} epochs"));
        lines.extend(text.lines().filter(|line| line.contains(": ")).map(str::to_owned));
    }
    Ok(lines)
}
