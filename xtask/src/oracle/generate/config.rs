//! Configurations of a composite reader over one text file.

use super::rng::Rng;
use super::{Mode, Plan};

/// A configuration.
pub fn write(rng: &mut Rng, plan: &Plan) -> String {
    let mut lines = vec![format!("randomize = {}", plan.randomize)];
    if plan.randomize {
        lines.extend(window(rng));
        if plan.seed != 0 || rng.once_in(2) {
            lines.push(format!("randomizationSeed = {}", plan.seed));
        }
    }
    match plan.mode {
        Mode::Sequence => {}
        Mode::Frame => lines.push("frameMode = true".to_owned()),
        Mode::Truncated => {
            lines.push("truncated = true".to_owned());
            lines.push(format!("truncationLength = {}", plan.truncation));
            if plan.right_splice > 0 {
                lines.push(format!("rightSplice = {}", plan.right_splice));
            }
        }
    }
    for (once_in, line) in [
        (7, "localTimeline = false"),
        (7, "precision = \"double\""),
        (9, "prefetch = false"),
        (15, "multiThreadedDeserialization = true"),
        (15, "useNumericSequenceKeys = true"),
        (25, "chunkSizeInBytes = 33554432"),
    ] {
        if rng.once_in(once_in) {
            lines.push(line.to_owned());
        }
    }
    lines.push(format!("traceLevel = {}", rng.pick(&[0, 0, 0, 1, 2])));
    lines.push(format!("deserializers = ( [ {} ] )", deserializer(rng, plan)));
    lines.join("\n") + "\n"
}

/// The randomization window, in samples or chunks.
fn window(rng: &mut Rng) -> Vec<String> {
    match rng.below(5) {
        0 => Vec::new(),
        1 | 2 => vec![
            format!("randomizationWindow = {}", rng.pick(&[0, 1, 2, 3, 5, 100])),
            "sampleBasedRandomizationWindow = false".to_owned(),
        ],
        _ => vec![format!("randomizationWindow = {}", rng.pick(&[0, 1, 4, 9, 30, 1000]))],
    }
}

fn deserializer(rng: &mut Rng, plan: &Plan) -> String {
    let mut entries = vec![
        "type = \"CNTKTextFormatDeserializer\"".to_owned(),
        "module = \"CNTKTextFormatReader\"".to_owned(),
        "file = \"@DIR@/data.ctf\"".to_owned(),
    ];
    if !rng.once_in(5) {
        entries.push(format!("chunkSizeInBytes = {}", rng.pick(&[1, 30, 64, 200, 500, 5000])));
    }
    if rng.once_in(7) {
        entries.push("skipSequenceIds = true".to_owned());
    }
    if rng.once_in(9) {
        entries.push("cacheIndex = true".to_owned());
    }
    let errors =
        if plan.mistakes { *rng.pick(&[0, 1, 3, 20, 1000, 1000, 1000, 1000]) } else { *rng.pick(&[0, 1000]) };
    entries.push(format!("maxErrors = {errors}"));
    let streams: Vec<String> = plan
        .streams
        .iter()
        .map(|stream| {
            let format = if stream.sparse { "sparse" } else { "dense" };
            let defines_size = if stream.defines_size { " ; definesMBSize = true" } else { "" };
            format!(
                "   {} = [ alias = \"{}\" ; dim = {} ; format = \"{format}\"{defines_size} ]",
                stream.name, stream.alias, stream.dim
            )
        })
        .collect();
    entries.push(format!("input = [\n{} ]", streams.join("\n")));
    entries.join(" ; ")
}
