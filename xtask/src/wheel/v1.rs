//! The interface of BrainScript hosts: configurations through CNTK's `DataReader`, by the driver `host_v1`.

use super::judge::{Verdict, judge};
use super::side::Side;
use crate::oracle::drive::{self, Output};
use crate::project::{Project, empty_folder};
use anyhow::Result;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// A configuration and the steps of a script, separated by semicolons.
struct Case {
    name: &'static str,
    config: &'static str,
    script: &'static str,
}

const SEQUENCES: &str = "inputs x s:sparse; epoch 12 0 60; read; end; position; epoch 12 1 60; read; end";

const CASES: [Case; 14] = [
    Case {
        name: "deserializers",
        config: r#"randomize = true
            deserializers = ( [ type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader"
                file = "@DIR@/sequences.ctf" ; input = [ x = [ dim = 2 ; format = "dense" ] ; s = [ dim = 7 ; format = "sparse" ] ] ] )"#,
        script: SEQUENCES,
    },
    Case {
        name: "deserializers, double",
        config: r#"precision = double ; randomize = true
            deserializers = ( [ type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader"
                file = "@DIR@/sequences.ctf" ; input = [ x = [ dim = 2 ; format = "dense" ] ; s = [ dim = 7 ; format = "sparse" ] ] ] )"#,
        script: SEQUENCES,
    },
    Case {
        name: "one reader",
        config: r#"readerType = "CNTKTextFormatReader" ; randomize = true ; file = "@DIR@/sequences.ctf"
            input = [ x = [ dim = 2 ; format = "dense" ] ; s = [ dim = 7 ; format = "sparse" ] ]"#,
        script: SEQUENCES,
    },
    Case {
        name: "one reader, double",
        config: r#"precision = double ; readerType = "CNTKTextFormatReader" ; randomize = false ; file = "@DIR@/sequences.ctf"
            input = [ x = [ dim = 2 ; format = "dense" ] ; s = [ dim = 7 ; format = "sparse" ] ]"#,
        script: SEQUENCES,
    },
    Case {
        name: "one reader, a sweep an epoch, by default",
        config: r#"file = "@DIR@/samples.ctf" ; input = [ y = [ dim = 3 ; format = "dense" ] ]"#,
        script: "inputs y; epoch 8 0 sweep; read; end; epoch 8 1 sweep; read",
    },
    Case {
        name: "several readers",
        config: r#"readers = ( first : second )
            first = [ readerType = "CNTKTextFormatReader" ; randomize = false ; file = "@DIR@/samples.ctf"
                input = [ y = [ dim = 3 ; format = "dense" ] ] ]
            second = [ readerType = "CNTKTextFormatReader" ; randomize = false ; file = "@DIR@/samples.ctf"
                input = [ z = [ alias = "y" ; dim = 3 ; format = "dense" ] ] ]"#,
        // Each of them refuses the other's inputs, by chance the one or the other first: nothing is read.
        script: "inputs y; epoch 8 0 40; end",
    },
    Case {
        name: "truncated",
        config: r#"truncated = true ; truncationLength = 3 ; randomize = false
            deserializers = ( [ type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader"
                file = "@DIR@/sequences.ctf" ; input = [ x = [ dim = 2 ; format = "dense" ] ] ] )"#,
        script: "inputs x; epoch 6 0 60; read; end",
    },
    Case {
        name: "frames",
        config: r#"frameMode = true
            deserializers = ( [ type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader"
                file = "@DIR@/samples.ctf" ; input = [ y = [ dim = 3 ; format = "dense" ] ] ] )"#,
        script: "inputs y; epoch 8 0 50; read; epoch 16 1 50 1 2; read; end",
    },
    Case {
        name: "workers",
        config: r#"readerType = "CNTKTextFormatReader" ; randomize = true ; file = "@DIR@/sequences.ctf"
            input = [ x = [ dim = 2 ; format = "dense" ] ]"#,
        script: "inputs x; epoch 12 0 60 0 2; read; epoch 12 0 60 1 2; read; epoch 12 3 60 2 3; read; end",
    },
    Case {
        name: "a layout for streams of different lengths",
        config: r#"randomize = false ; deserializers = ( [ type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader"
                file = "@DIR@/sequences.ctf" ; input = [ x = [ dim = 2 ; format = "dense" ] ; w = [ dim = 1 ; format = "dense" ] ] ] )"#,
        script: "inputs x@shared w@shared; epoch 12 0 60; read 1",
    },
    Case {
        name: "an empty file",
        config: r#"readerType = "CNTKTextFormatReader" ; file = "@DIR@/empty.ctf" ; input = [ y = [ dim = 3 ; format = "dense" ] ]"#,
        script: "",
    },
    Case {
        name: "bad data",
        config: r#"readerType = "CNTKTextFormatReader" ; file = "@DIR@/config.cntk" ; randomize = false
            input = [ y = [ dim = 3 ; format = "dense" ] ]"#,
        script: "inputs y; epoch 8 0 40; read 1",
    },
    Case {
        name: "an unknown precision",
        config: r#"precision = half ; readerType = "CNTKTextFormatReader" ; file = "@DIR@/samples.ctf"
            input = [ y = [ dim = 3 ; format = "dense" ] ]"#,
        script: "",
    },
    Case {
        name: "no file",
        config: r#"readerType = "CNTKTextFormatReader" ; file = "@DIR@/none.ctf" ; input = [ y = [ dim = 3 ; format = "dense" ] ]"#,
        script: "",
    },
];

/// Runs every case on both sides, and tells how many came out the same, and what differs.
pub fn compare(project: &Project, version: &str, ours: &Side, cntk: &Side) -> Result<Vec<(String, Verdict)>> {
    let verdict = |(number, case): (usize, &Case)| {
        let folder = project.target.join("wheel").join(version).join(format!("v1/{number}"));
        empty_folder(&folder)?;
        unpack(case, &folder)?;
        let (ours, cntk) = (run(project, version, ours, &folder)?, run(project, version, cntk, &folder)?);
        Ok((format!("v1: {}", case.name), judge(None, &ours, &cntk)))
    };
    CASES.iter().enumerate().map(verdict).collect()
}

fn run(project: &Project, version: &str, side: &Side, folder: &Path) -> Result<Output> {
    let mut command = Command::new(project.target.join("drivers/host_v1"));
    command.arg(version).arg(folder.join("config.cntk")).arg(folder.join("script.txt"));
    command.env("LD_LIBRARY_PATH", side.library_path());
    drive::run(command, folder, side.name(), drive::PATIENCE)
}

/// Writes configuration, script and data.
fn unpack(case: &Case, folder: &Path) -> Result<()> {
    std::fs::write(folder.join("config.cntk"), case.config)?;
    let lines: Vec<&str> = case.script.split(';').map(str::trim).collect();
    std::fs::write(folder.join("script.txt"), lines.join("\n"))?;
    let (mut sequences, mut samples) = (String::new(), String::new());
    for key in 0..25 {
        for step in 0..1 + key * 7 % 5 {
            let number = 5 * key + step;
            write!(sequences, "{key} |x {number}.25 -{key}e-{step}")?;
            write!(sequences, " |s {}:{key}.5 6:{step}", number % 6)?;
            writeln!(sequences, "{}", if step == 0 { format!(" |w {key}") } else { String::new() })?;
        }
        writeln!(samples, "|y {key} -0.{key} 1e{}\n|y {} 0 1", key % 5, key * 3)?;
    }
    std::fs::write(folder.join("sequences.ctf"), sequences)?;
    std::fs::write(folder.join("samples.ctf"), samples)?;
    std::fs::write(folder.join("empty.ctf"), "")?;
    Ok(())
}
