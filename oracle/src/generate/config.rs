//! Generates configurations of a composite reader over the files of a case.

use super::bundle::Match;
use super::rng::Rng;
use super::{Format, Keys, Mode, Plan, Source};

/// Generates a configuration.
pub fn write(rng: &mut Rng, plan: &Plan, how: Match) -> String {
    let mut lines = head(rng, plan);
    if plan.keys != Keys::Numeric {
        lines.push("useNumericSequenceKeys = false".to_owned());
    }
    if plan.keys == Keys::Hashed {
        lines.push("hashSequenceKeys = true".to_owned());
    }
    if plan.sources.len() > 1 && rng.once_in(3) {
        lines.push(format!("checkData = {}", rng.once_in(2)));
    }
    let deserializers: Vec<String> = (0..)
        .zip(&plan.sources)
        .map(|(number, source)| match source.format {
            Format::Text => text(rng, plan, source, number == 0 && how == Match::Partial),
            Format::Binary => binary(rng, source),
        })
        .collect();
    lines.push(format!("deserializers = ( [ {} ] )", deserializers.join(" ] : [ ")));
    lines.join("\n") + "\n"
}

/// Generates the keys of the reader itself.
pub fn head(rng: &mut Rng, plan: &Plan) -> Vec<String> {
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
    if plan.double {
        lines.push("precision = \"double\"".to_owned());
    }
    for (once_in, line) in [
        (7, "localTimeline = false"),
        (9, "prefetch = false"),
        (15, "multiThreadedDeserialization = true"),
        (25, "chunkSizeInBytes = 33554432"),
    ] {
        if rng.once_in(once_in) {
            lines.push(line.to_owned());
        }
    }
    lines.push(format!("traceLevel = {}", rng.pick(&[0, 0, 0, 1, 2])));
    lines
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

fn text(rng: &mut Rng, plan: &Plan, source: &Source, one_chunk: bool) -> String {
    let mut entries = vec![
        "type = \"CNTKTextFormatDeserializer\"".to_owned(),
        "module = \"CNTKTextFormatReader\"".to_owned(),
        format!("file = \"@DIR@/{}\"", source.name),
    ];
    if !one_chunk && !rng.once_in(5) {
        entries.push(format!("chunkSizeInBytes = {}", rng.pick(&[1, 30, 64, 200, 500, 5000])));
    }
    if rng.once_in(7) && plan.sources.len() == 1 {
        entries.push("skipSequenceIds = true".to_owned());
    }
    if rng.once_in(9) && plan.keys != Keys::Textual {
        entries.push("cacheIndex = true".to_owned());
    }
    // A textual id counts as an error on each line.
    let errors = if plan.keys != Keys::Numeric {
        1_000_000
    } else if source.mistakes {
        *rng.pick(&[0, 1, 3, 20, 1000, 1000, 1000, 1000])
    } else {
        *rng.pick(&[0, 1000])
    };
    entries.push(format!("maxErrors = {errors}"));
    let streams: Vec<String> = source
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

/// The file declares its streams; some are renamed.
fn binary(rng: &mut Rng, source: &Source) -> String {
    let mut entries = vec![
        "type = \"CNTKBinaryFormatDeserializer\"".to_owned(),
        "module = \"CNTKBinaryReader\"".to_owned(),
        format!("file = \"@DIR@/{}\"", source.name),
    ];
    if rng.once_in(10) {
        entries.push("keepDataInMemory = true".to_owned());
    }
    let mut streams = Vec::new();
    for stream in &source.streams {
        match rng.below(6) {
            0 | 1 => streams.push(format!("   {} = [ alias = \"{}\" ]", stream.name, stream.alias)),
            2 => streams.push(format!("   {}2 = [ alias = \"{}\" ; dim = 7 ]", stream.name, stream.alias)),
            3 => streams.push(format!("   {} = [ format = \"sparse\" ]", stream.alias)),
            _ => {}
        }
    }
    if rng.once_in(8) {
        streams.push("   none = [ alias = \"no such stream\" ]".to_owned());
    }
    if !streams.is_empty() {
        entries.push(format!("input = [\n{} ]", streams.join("\n")));
    }
    entries.join(" ; ")
}
