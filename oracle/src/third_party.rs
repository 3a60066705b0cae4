//! Cases with a third-party module: a C++ deserializer and its transforms, from
//! `cpp_tests/third_party.cpp`.

use crate::golden::Case;
use anyhow::Result;
use dropin::Host;
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;
use tooling::project::Project;

/// The prefix of the names of these cases.
pub const NAMES: &str = "third-party-";

/// Builds the module for a host with only the compiler, as its authors would.
fn build(project: &Project, host: Host) -> Result<PathBuf> {
    let folder = project.target.join("xtask/third_party").join(host.name());
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("third_party.so");
    let run = project.run(&project.compiler()).args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror"]);
    let run = run.args(host.options()).args(["-shared", "-fPIC", "-fvisibility=hidden", "-o"]).arg(&file);
    run.arg(project.path("cpp_tests/third_party.cpp")).go()?;
    Ok(file)
}

/// A configuration, and how it is read.
struct Plan {
    name: &'static str,
    /// The keys of the reader.
    head: &'static str,
    /// The deserializers' sections: `RAMP` stands for a third-party one, `TEXT` for text.
    deserializers: &'static str,
    /// Number of workers, and truncation length. Each rank is a case.
    workers: (u64, u64),
}

const RANDOMIZED: &str = "randomize = true\nrandomizationWindow = 2\nsampleBasedRandomizationWindow = false";
const TRANSFORMED: &str = "[ RAMP ; input = [ x = [ transforms = ( [ type = \"Scale\" ; factor = 3 ] : [ type = \"Scale\" ; factor = 2 ] ) ] ] ]";

/// A chain for images with a third-party transform between CNTK's.
const INVERTED: &str = "[ IMAGES ; input = [ i = [ transforms = ( [ type = \"Crop\" ; cropType = \"RandomSide\" ; sideRatio = 0.6 ] : \
     [ type = \"Scale\" ; width = 6 ; height = 5 ; channels = 3 ] : [ type = \"Invert\" ; module = \"MODULE\" ] ) ] ; l = [ labelDim = 9 ] ] ]";

/// Cases of images, which need CNTK's image module.
const IMAGE_PLANS: [Plan; 4] = [
    Plan { name: "image-in-order", head: "randomize = false", deserializers: INVERTED, workers: (1, 0) },
    Plan { name: "image-randomized", head: "randomize = true", deserializers: INVERTED, workers: (2, 0) },
    Plan {
        name: "image-after-color",
        head: "randomize = true",
        deserializers: "[ IMAGES ; input = [ i = [ transforms = ( [ type = \"Scale\" ; width = 6 ; height = 5 ; channels = 3 ] : \
             [ type = \"Color\" ; brightnessRadius = 0.3 ] : [ type = \"Invert\" ; module = \"MODULE\" ] ) ] ; l = [ labelDim = 9 ] ] ]",
        workers: (1, 0),
    },
    Plan { name: "image-and-text", head: RANDOMIZED, deserializers: "INVERTED : [ TEXT ]", workers: (1, 0) },
];

const PLANS: [Plan; 13] = [
    Plan { name: "in-order", head: "randomize = false", deserializers: "[ RAMP ]", workers: (1, 0) },
    Plan { name: "randomized", head: RANDOMIZED, deserializers: "[ RAMP ; keyStep = 3 ]", workers: (1, 0) },
    Plan { name: "workers", head: RANDOMIZED, deserializers: "[ RAMP ]", workers: (3, 0) },
    Plan {
        name: "frames",
        head: "randomize = true\nrandomizationWindow = 9\nframeMode = true",
        deserializers: "[ RAMP ; longest = 1 ]",
        workers: (1, 0),
    },
    Plan {
        name: "truncated",
        head: "randomize = true\nrandomizationWindow = 9\ntruncated = true\ntruncationLength = 3",
        deserializers: "[ RAMP ; longest = 6 ]",
        workers: (1, 3),
    },
    Plan { name: "transformed", head: "randomize = false", deserializers: TRANSFORMED, workers: (1, 0) },
    Plan { name: "transformed-randomized", head: RANDOMIZED, deserializers: TRANSFORMED, workers: (2, 0) },
    Plan {
        name: "threads",
        head: "randomize = true\nmultiThreadedDeserialization = true",
        deserializers: TRANSFORMED,
        workers: (1, 0),
    },
    Plan { name: "first-of-two", head: RANDOMIZED, deserializers: "[ RAMP ] : [ TEXT ]", workers: (1, 0) },
    Plan { name: "second-of-two", head: RANDOMIZED, deserializers: "[ TEXT ] : [ RAMP ]", workers: (2, 0) },
    Plan {
        name: "two-of-a-kind",
        head: "randomize = false",
        deserializers: "[ TEXT ] : [ RAMP ; keyStep = 2 ; input = [ x = [ transforms = ( [ type = \"Scale\" ; factor = 5 ] ) ] ] ]",
        workers: (1, 0),
    },
    Plan {
        name: "invalid",
        head: "randomize = false",
        deserializers: "[ RAMP ; invalid = 6 ]",
        workers: (1, 0),
    },
    Plan {
        name: "broken",
        head: "randomize = false",
        deserializers: "[ RAMP ; broken = 4 ]",
        workers: (1, 0),
    },
];

/// Builds the module, and returns the cases that use it. `images`: whether CNTK's image module can
/// be loaded.
pub fn cases(project: &Project, host: Host, images: bool) -> Result<Vec<Case>> {
    let module = build(project, host)?;
    let ramp = format!(r#"type = "Ramp" ; module = "{}" ; sequences = 23 ; perChunk = 4"#, module.display());
    let mut text = String::new();
    for key in (0..23).rev() {
        for sample in 0..=key % 3 {
            writeln!(text, "{key} |t {key}.5 -{sample}")?;
        }
    }
    let section = r#"type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader" ; file = "@DIR@/text.ctf"
        chunkSizeInBytes = 60 ; input = [ t = [ dim = 2 ; format = "dense" ] ]"#;
    let encoded = ["p13x9.bmp", "s420.jpg", "sgray.jpg"]
        .map(|name| project.path("tests/images/files/images").join(name));
    let mut map = String::new();
    for key in 0..23 {
        writeln!(map, "{key}\t{}\t{}", encoded[key % 3].display(), key % 9)?;
    }
    let pictures = r#"type = "ImageDeserializer" ; module = "ImageReader" ; file = "@DIR@/images.map""#;
    let mut cases = Vec::new();
    let plans = PLANS.into_iter().chain(IMAGE_PLANS.into_iter().filter(|_| images));
    for Plan { name, head, deserializers, workers: (workers, truncation) } in plans {
        let deserializers = deserializers.replace("INVERTED", INVERTED).replace("IMAGES", pictures);
        let deserializers = deserializers.replace("MODULE", &module.display().to_string());
        let deserializers = deserializers.replace("RAMP", &ramp).replace("TEXT", section);
        for rank in 0..workers {
            let mut steps = vec![format!("start {workers} {rank} 10 {truncation} 0 1 inf 2 0")];
            steps.extend(["read", "state"].repeat(14).into_iter().map(str::to_owned));
            // Errors change what CNTK delivers afterwards.
            if !matches!(name, "invalid" | "broken") {
                steps.push("restore minibatchSourcePosition 17".to_owned());
                steps.extend(["read", "state"].repeat(4).into_iter().map(str::to_owned));
            }
            cases.push(Case {
                name: format!("{NAMES}{name}-{rank}"),
                create: Value::Null,
                steps,
                results: Vec::new(),
                config: format!("{head}\ntraceLevel = 0\ndeserializers = ( {deserializers} )\n"),
                files: vec![
                    ("text.ctf".to_owned(), text.clone().into_bytes()),
                    ("images.map".to_owned(), map.clone().into_bytes()),
                ],
                rewritten: None,
            });
        }
    }
    Ok(cases)
}
