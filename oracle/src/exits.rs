//! Programs that end while a module of CNTK still loads chunks ahead: they must not crash, whether
//! they destroy the reader first or not.

use crate::drive::{Drivers, End};
use crate::golden::Case;
use anyhow::{Result, ensure};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use tooling::Tally;

/// Endings of a program: the last step of its script, and a description.
const ENDINGS: [(Option<&str>, &str); 2] =
    [(None, "that destroys the reader"), (Some("exit"), "that leaves the reader to the end of the process")];

const UTTERANCES: usize = 1500;
const DIMENSION: usize = 4;

/// Runs a program that reads two minibatches `runs` times with each ending, and compares its data
/// with those of CNTK's own module.
pub fn check(drivers: &Drivers, folder: &Path, runs: usize) -> Result<Tally> {
    let mut tally = Tally::default();
    for (ending, what) in ENDINGS {
        let mut case = speech()?;
        let (_, cntk) = drivers.run(&case, folder)?;
        ensure!(cntk.end == End::Done && cntk.lines.len() == 4, "CNTK itself does not read the utterances.");
        case.steps.extend(ending.map(str::to_owned));
        let (config, script) = case.unpack(folder)?;
        let mut crashes = 0;
        for _ in 0..runs {
            let ours = drivers.run_own(&config, &script, folder, "ours")?;
            ensure!(ours.lines == cntk.lines, "Two minibatches of utterances differ from CNTK's.");
            crashes += usize::from(ours.end != End::Done);
        }
        say!("      a program {what}: {runs} runs, {crashes} crashes");
        tally.passed += usize::from(crashes == 0);
        tally.failed += usize::from(crashes > 0);
    }
    Ok(tally)
}

/// Two minibatches of frames, with features and labels from two deserializers of CNTK's speech
/// module.
fn speech() -> Result<Case> {
    // CNTK's module makes chunks of 90,000 frames: enough utterances for several chunks, so that
    // some are loaded ahead.
    let length = |utterance: usize| 200 + utterance * 7 % 100;
    let (mut script, mut labels, mut features, mut frames) =
        (String::new(), "#!MLF!#\n".to_owned(), Vec::new(), 0);
    for utterance in 0..UTTERANCES {
        let last = frames + length(utterance) - 1;
        writeln!(script, "u{utterance}.mfc=@DIR@/all.mfc[{frames},{last}]")?;
        let end = length(utterance) * 100_000;
        writeln!(labels, "\"u{utterance}.lab\"\n0 {end} s{}\n.", utterance % 7)?;
        for value in frames * DIMENSION..(last + 1) * DIMENSION {
            features.extend_from_slice(&(value as f32 / 8.0).to_be_bytes());
        }
        frames = last + 1;
    }
    // HTK's header: number of frames, period in units of 100 ns, bytes per frame, kind (9:
    // user-defined).
    let mut archive = u32::try_from(frames)?.to_be_bytes().to_vec();
    archive.extend_from_slice(&100_000_u32.to_be_bytes());
    archive.extend_from_slice(&u16::try_from(DIMENSION * size_of::<f32>())?.to_be_bytes());
    archive.extend_from_slice(&9_u16.to_be_bytes());
    archive.extend(features);
    let states: String = (0..7).map(|state| format!("s{state}\n")).collect();
    let file = |name: &str, content: Vec<u8>| (name.to_owned(), content);
    Ok(Case {
        name: "exits".to_owned(),
        create: Value::Null,
        steps: ["start 1 0 256 0 0 1 inf inf 0", "read", "read"].map(str::to_owned).to_vec(),
        results: Vec::new(),
        config: CONFIG.to_owned(),
        files: vec![
            file("all.mfc", archive),
            file("features.scp", script.into_bytes()),
            file("labels.mlf", labels.into_bytes()),
            file("states.list", states.into_bytes()),
        ],
        rewritten: None,
    })
}

const CONFIG: &str = r#"
randomize = true
frameMode = true
traceLevel = 0
deserializers = (
    [ type = "HTKFeatureDeserializer" ; module = "HTKDeserializers"
      input = [ features = [ dim = 4 ; scpFile = "@DIR@/features.scp" ] ] ] :
    [ type = "HTKMLFDeserializer" ; module = "HTKDeserializers"
      input = [ labels = [ dim = 7 ; mlfFile = "@DIR@/labels.mlf" ; labelMappingFile = "@DIR@/states.list" ] ] ] )
"#;
