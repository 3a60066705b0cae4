//! The interface of BrainScript hosts: configurations through CNTK's `DataReader`, with the driver
//! `host_v1`.

use super::judge::{Allowed, Announced, Verdict, judge};
use crate::drive::{self, Output};
use anyhow::Result;
use dropin::{self, Host};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use tooling::project::{Project, empty_folder};

/// A configuration and the steps of a script, separated by semicolons.
struct Case {
    name: &'static str,
    config: &'static str,
    script: &'static str,
}

const SEQUENCES: &str = "inputs x s:sparse; epoch 12 0 60; read; end; position; epoch 12 1 60; read; end";

const BINARY: &str = "inputs f g:sparse; epoch 6 0 20; read; end; position; epoch 6 1 20; read; end";

const SPEECH: &str = "inputs features labels:sparse; epoch 10 0 30; read; end; epoch 10 1 30; read; end";

const CASES: [Case; 23] = [
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
        // Each reader refuses the inputs of the other, in random order, so nothing is read.
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
    Case {
        name: "one binary reader",
        config: r#"readerType = "CNTKBinaryReader" ; randomize = true ; randomizationWindow = 2 ; file = "@DIR@/data.cbf""#,
        script: BINARY,
    },
    Case {
        name: "one binary reader, in order",
        config: r#"readerType = "CNTKBinaryReader" ; randomize = false ; frameMode = true ; file = "@DIR@/data.cbf""#,
        script: BINARY,
    },
    Case {
        name: "binary data, by default",
        config: r#"deserializers = ( [ type = "CNTKBinaryFormatDeserializer" ; module = "CNTKBinaryReader" ; file = "@DIR@/data.cbf" ] )"#,
        script: BINARY,
    },
    Case {
        name: "a binary reader of text",
        config: r#"readerType = "CNTKBinaryReader" ; file = "@DIR@/samples.ctf""#,
        script: "",
    },
    Case {
        name: "old-style speech, frames",
        config: r#"readerType = "HTKDeserializers" ; readMethod = "blockRandomize" ; miniBatchMode = "partial" ; randomize = "auto"
            features = [ dim = 4 ; contextWindow = 1:1 ; type = "real" ; scpFile = "@DIR@/speech.scp" ]
            labels = [ mlfFile = "@DIR@/speech.mlf" ; labelMappingFile = "@DIR@/states.list" ; labelDim = 3 ; labelType = "category" ]"#,
        script: SPEECH,
    },
    Case {
        name: "old-style speech, utterances",
        config: r#"readerType = "HTKDeserializers" ; frameMode = false ; readMethod = "none"
            features = [ dim = 12 ; type = "real" ; scpFile = "@DIR@/speech.scp" ]
            labels = [ mlfFile = "@DIR@/speech.mlf" ; labelMappingFile = "@DIR@/states.list" ; labelDim = 3 ]"#,
        script: SPEECH,
    },
    Case {
        name: "old-style speech, truncated, double",
        config: r#"precision = double ; readerType = "HTKDeserializers" ; frameMode = false ; truncated = true
            nbruttsineachrecurrentiter = 2:3 ; readMethod = "none" ; randomize = "none"
            features = [ dim = 4 ; type = "real" ; scpFile = "@DIR@/speech.scp" ]
            labels = [ mlfFile = "@DIR@/speech.mlf" ; labelMappingFile = "@DIR@/states.list" ; labelDim = 3 ]"#,
        script: "inputs features labels; epoch 3 0 30; read; end; epoch 3 1 30; read; end",
    },
    Case {
        name: "old-style speech without features",
        config: r#"readerType = "HTKDeserializers"
            labels = [ mlfFile = "@DIR@/speech.mlf" ; labelMappingFile = "@DIR@/states.list" ; labelDim = 3 ]"#,
        script: "",
    },
    Case {
        name: "no binary file",
        config: r#"readerType = "CNTKBinaryReader" ; file = "@DIR@/none.cbf""#,
        script: "",
    },
];

/// The loader's search paths for the modules of both sides.
#[derive(Clone, Copy)]
pub struct Paths<'a> {
    /// This project's modules, in front of CNTK's libraries.
    pub ours: &'a str,
    /// CNTK's own.
    pub cntk: &'a str,
    /// Whether a module that is CNTK's on both sides may end the process.
    pub may_crash: bool,
}

/// Runs every case on both sides, and returns a verdict for each.
pub fn compare(project: &Project, host: Host, paths: Paths<'_>) -> Result<Vec<(String, Verdict)>> {
    let verdict = |(number, case): (usize, &Case)| {
        let folder = project.target.join("cntk-python").join(host.name()).join(format!("v1/{number}"));
        empty_folder(&folder)?;
        unpack(case, &folder)?;
        let run = |name, path| run(project, host, name, path, &folder);
        let (ours, cntk) = (run("ours", paths.ours)?, run("cntk", paths.cntk)?);
        Ok((
            format!("v1: {}", case.name),
            judge(announced(case, host).as_ref(), paths.may_crash, &ours, &cntk),
        ))
    };
    CASES.iter().enumerate().map(verdict).collect()
}

/// The differences of CNTK 2.0 and its betas, all from the creation on.
fn announced(case: &Case, host: Host) -> Option<Announced> {
    let (reason, ours) = match case.name {
        "no file" => ("this version words it differently", "is not open"),
        "binary data, by default" => {
            ("this version has no deserializer of binary data", "\"distributed\":true")
        }
        _ => return None,
    };
    let what = Allowed::From(0, ours.to_owned());
    host.is_before(20200).then(|| Announced { reason: reason.to_owned(), what })
}

fn run(project: &Project, host: Host, name: &str, path: &str, folder: &Path) -> Result<Output> {
    let mut command = Command::new(dropin::driver_file(project, "host_v1", host));
    command.arg(host.library()).arg(folder.join("config.cntk")).arg(folder.join("script.txt"));
    command.env("LD_LIBRARY_PATH", path);
    drive::run(command, folder, name, drive::PATIENCE)
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
    std::fs::write(folder.join("data.cbf"), binary())?;
    speech(folder)
}

/// Writes an archive of 9 utterances with 4 values per frame, its script, labels and their states.
fn speech(folder: &Path) -> Result<()> {
    let (mut script, mut labels, mut values) = (String::new(), "#!MLF!#\n".to_owned(), Vec::new());
    let mut frames = 0u32;
    for key in 0..9 {
        let length = 2 + key * 5 % 7;
        writeln!(script, "u{key}.mfc=.../speech.mfc[{frames},{}]", frames + length - 1)?;
        writeln!(labels, "\"u{key}.lab\"\n0 200000 s{}\n200000 {length}00000 s2\n.", key % 2)?;
        for value in 0..4 * length {
            values.extend((100.0 * key as f32 + 0.25 * value as f32).to_be_bytes());
        }
        frames += length;
    }
    let head = [frames.to_be_bytes(), 100_000u32.to_be_bytes(), [0, 16, 0, 9]].concat();
    std::fs::write(folder.join("speech.mfc"), [head, values].concat())?;
    std::fs::write(folder.join("speech.scp"), script)?;
    std::fs::write(folder.join("speech.mlf"), labels.replace("\n200000 200000 s2", ""))?;
    std::fs::write(folder.join("states.list"), "s0\ns1\ns2\n")?;
    Ok(())
}

/// Returns a file in CNTK's binary format: chunks of 5, 3 and 7 sequences of f (2 dense) and g (6
/// sparse, one value per sample).
fn binary() -> Vec<u8> {
    let mut out = Vec::new();
    words(&mut out, &[MAGIC[0], MAGIC[1], 1]);
    let mut table = Vec::new();
    for count in [5u32, 3, 7] {
        let lengths: Vec<u32> = (0..count).map(|number| 1 + (number * 3 + count) % 4).collect();
        words(&mut table, &[out.len() as u32, 0, count, lengths.iter().sum()]);
        words(&mut out, &lengths);
        for &length in &lengths {
            words(&mut out, &[length]);
            (0..2 * length).for_each(|number| words(&mut out, &[(number as f32 - 2.5).to_bits()]));
        }
        for &length in &lengths {
            words(&mut out, &[length, length]);
            (0..length).for_each(|number| words(&mut out, &[(number as f32 + 0.25).to_bits()]));
            (0..length).for_each(|number| words(&mut out, &[(number + count) % 6]));
            (0..length).for_each(|_| words(&mut out, &[1]));
        }
    }
    let header = out.len() as u32;
    words(&mut out, &[MAGIC[0], MAGIC[1], 3, 2]);
    for (name, storage, dimension) in [(b'f', 0, 2), (b'g', 1, 6)] {
        out.push(storage);
        words(&mut out, &[1]);
        out.extend([name, 0]);
        words(&mut out, &[dimension]);
    }
    out.extend(table);
    words(&mut out, &[header, 0]);
    out
}

/// The first bytes of a binary file and of its header.
const MAGIC: [u32; 2] = [0x5f62_696e, 0x636e_746b];

fn words(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}
