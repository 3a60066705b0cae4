//! Generates archives of features in all of HTK's encodings, and the scripts that list their
//! utterances.

use super::super::rng::Rng;
use super::super::{Mode, Plan};
use super::{Corpus, File, Odd, Part, Utterance, section};

/// Flags of HTK's parameter kinds.
const COMPRESSED: u16 = 0o2000;
const CHECKSUM: u16 = 0o10000;

/// The input of a deserializer.
struct FeatureSource<'a> {
    /// The prefix of the names of its files.
    name: &'a str,
    /// Utterances in the order of the script.
    utterances: Vec<Utterance>,
    /// Number of values of a frame.
    dim: usize,
    /// Whether something is wrong.
    odd: bool,
    /// Whether lines have a path prefix from the configuration.
    prefixed: bool,
}

/// How the values of one archive are stored.
struct Encoding {
    big: bool,
    compressed: bool,
    kind: u16,
    /// In a compressed file, values are `(stored + b) / a`.
    scales: Vec<(f32, f32)>,
}

/// Generates the first features, which determine the order.
pub fn first(rng: &mut Rng, plan: &Plan, corpus: &Corpus) -> Part {
    let dim = if corpus.is_large() { 1 } else { *rng.pick(&[1, 2, 3, 5]) };
    let mut utterances = corpus.utterances.clone();
    let repeated = corpus.odd == Odd::Features && rng.once_in(4);
    if repeated {
        let again = utterances[rng.below(utterances.len())].clone();
        utterances.insert(rng.below(utterances.len() + 1), again);
    }
    let odd = corpus.odd == Odd::Features && !repeated;
    let source = FeatureSource { name: "a", utterances, dim, odd, prefixed: rng.once_in(6) };
    let files = files(rng, &source);
    let mut outer = Vec::new();
    if rng.once_in(9) {
        outer.push(format!("maxSequenceSize = {}", rng.range(1, 14)));
    }
    if rng.once_in(7) {
        outer.push("definesMBSize = true".to_owned());
    }
    if rng.once_in(12) {
        outer.push(format!("verbosity = {}", rng.range(0, 2)));
    }
    let large = corpus.is_large() || plan.mode == Mode::Truncated && rng.once_in(2);
    let entries = entries(rng, &source, if large { 0 } else { 1 });
    Part { section: section("HTKFeatureDeserializer", "feat", &entries, &outer), files }
}

/// Generates more features of the same utterances, some of which may be missing.
pub fn second(rng: &mut Rng, plan: &Plan, corpus: &Corpus) -> Part {
    let dim = *rng.pick(&[1, 2, 3]);
    let mut utterances = others(rng, corpus);
    if corpus.odd == Odd::Lengths && rng.once_in(2) {
        let place = rng.below(utterances.len());
        let frames = &mut utterances[place].frames;
        *frames = (*frames + rng.range(0, 3) as u32).saturating_sub(1).max(1);
    }
    let source = FeatureSource { name: "b", utterances, dim, odd: false, prefixed: false };
    let files = files(rng, &source);
    let entries = entries(rng, &source, if plan.mode == Mode::Truncated { 0 } else { 1 });
    Part { section: section("HTKFeatureDeserializer", "Again", &entries, &[]), files }
}

/// Generates one vector per utterance, which is repeated for each of its frames.
pub fn vectors(rng: &mut Rng, corpus: &Corpus) -> Part {
    let mut utterances = others(rng, corpus);
    for utterance in &mut utterances {
        utterance.frames = 1;
    }
    if rng.once_in(20) {
        utterances[0].frames = 2;
    }
    let source = FeatureSource { name: "v", utterances, dim: 2, odd: false, prefixed: false };
    let files = files(rng, &source);
    let mut entries = entries(rng, &source, 1);
    let mut outer = Vec::new();
    match rng.below(8) {
        0 => outer.push("expandToUtterance = true".to_owned()),
        1 => {}
        _ => entries.push("expandToUtterance = true".to_owned()),
    }
    Part { section: section("HTKFeatureDeserializer", "ivec", &entries, &outer), files }
}

/// Returns the corpus's utterances in another order, with some missing, and others that no other
/// file has.
fn others(rng: &mut Rng, corpus: &Corpus) -> Vec<Utterance> {
    let mut utterances = corpus.utterances.clone();
    if rng.once_in(3) {
        for end in (1..utterances.len()).rev() {
            utterances.swap(end, rng.below(end + 1));
        }
    }
    if rng.once_in(4) {
        let place = rng.below(utterances.len());
        utterances[place].key = "900".to_owned();
    }
    utterances
}

/// Generates the entries of a stream's section.
fn entries(rng: &mut Rng, source: &FeatureSource<'_>, context: u64) -> Vec<String> {
    let mut entries = vec![format!("scpFile = \"@DIR@/{}.scp\"", source.name)];
    let dim = source.dim;
    if context == 0 || rng.once_in(3) {
        let (most, wrong) = (rng.range(0, context * 2) as usize, rng.once_in(20));
        let dim = if wrong { dim * 2 + rng.below(2) } else { dim * (1 + 2 * most) };
        entries.push(format!("dim = {dim}"));
        if rng.once_in(4) {
            entries.push(format!("contextWindow = {}", rng.pick(&["1", "0:0", "0:0"])));
        }
    } else {
        let padded = if rng.once_in(6) { rng.below(4) } else { 0 };
        entries.push(format!("dim = {}", dim + padded));
        let window = match rng.below(8) {
            0 => format!("{}", rng.pick(&[3, 5, 7])),
            1 if rng.once_in(4) => rng.pick(&["2", "0", "1:1:1"]).to_string(),
            _ => format!("{}:{}", rng.below(5), rng.range(1, 4)),
        };
        entries.push(format!("contextWindow = {window}"));
    }
    if source.prefixed {
        entries.push(format!("prefixPathInSCP = \"@DIR@{}\"", rng.pick(&["", "/", "//"])));
    }
    if rng.once_in(2) {
        entries.push("type = \"real\"".to_owned());
    }
    entries
}

/// Generates the archives and the script.
fn files(rng: &mut Rng, source: &FeatureSource<'_>) -> Vec<File> {
    let archives = 1 + rng.below(if source.utterances.len() > 2 { 3 } else { 1 });
    let kind = *rng.pick(&[9, 9, 9, 6, 7, 11, 6 | 0o100, 7 | 0o20000, 12]);
    let period = *rng.pick(&[100_000, 100_000, 50_000, 200_000]);
    let mut lines: Vec<Option<String>> = vec![None; source.utterances.len()];
    let mut files = Vec::new();
    let odd_header = source.odd && rng.once_in(3);
    for archive in 0..archives {
        let name = format!("{}{archive}.mfc", source.name);
        let own: Vec<usize> = (0..lines.len()).filter(|number| number % archives == archive).collect();
        let encoding = encoding(rng, kind, source.dim);
        let mut frames = 0u32;
        for &number in own.iter().rev() {
            if rng.once_in(6) {
                frames += rng.range(1, 3) as u32;
            }
            let utterance = &source.utterances[number];
            let last = frames + utterance.frames - 1;
            let extension = rng.pick(&[".mfc", ".mfc", ".feat"]);
            let path = match rng.below(3) {
                _ if source.prefixed => name.clone(),
                0 => format!("@DIR@/{name}"),
                _ => format!(".../{name}"),
            };
            lines[number] = Some(format!("{}{extension}={path}[{frames},{last}]", utterance.key));
            frames = last + 1;
        }
        let mut content = archive_of(rng, &encoding, frames, period, source.dim);
        if odd_header && archive == 0 {
            damage(rng, &mut content);
        }
        files.push((name, content));
    }
    let mut lines: Vec<String> = lines.into_iter().flatten().collect();
    if source.odd && !odd_header {
        let place = rng.below(lines.len());
        spoil(rng, &mut lines[place]);
    }
    let end = if rng.once_in(6) { "\r\n" } else { "\n" };
    let mut script = lines.join(end);
    if !rng.once_in(6) {
        script.push_str(end);
    }
    files.push((format!("{}.scp", source.name), script.into_bytes()));
    files
}

/// Chooses the encoding of an archive. Archives of one script may differ in everything but the
/// kind.
fn encoding(rng: &mut Rng, kind: u16, dim: usize) -> Encoding {
    // For this kind, an identifier follows the header if it has no flags.
    let plain = kind == 12;
    let compressed = !plain && rng.once_in(3);
    let checksum = if !plain && rng.once_in(5) { CHECKSUM } else { 0 };
    let scale = |rng: &mut Rng| (rng.range(1, 40_000) as f32 / 16.0, rng.range(0, 999) as f32 - 500.0);
    let scales = (0..dim).map(|_| scale(rng)).collect();
    Encoding {
        big: !rng.once_in(3),
        compressed,
        kind: kind | checksum | if compressed { COMPRESSED } else { 0 },
        scales,
    }
}

/// Generates the content of an archive.
fn archive_of(rng: &mut Rng, encoding: &Encoding, frames: u32, period: u32, dim: usize) -> Vec<u8> {
    let mut content = Vec::new();
    let mut put = |bytes: &[u8]| match encoding.big {
        true => content.extend(bytes.iter().rev()),
        false => content.extend(bytes),
    };
    let size = if encoding.compressed { 2 } else { 4 };
    put(&(frames + if encoding.compressed { 4 } else { 0 }).to_le_bytes());
    put(&period.to_le_bytes());
    put(&((dim * size) as u16).to_le_bytes());
    put(&encoding.kind.to_le_bytes());
    if encoding.kind == 12 {
        (0..16u8).for_each(|byte| put(&[byte]));
    }
    if encoding.compressed {
        encoding.scales.iter().for_each(|(a, _)| put(&a.to_le_bytes()));
        encoding.scales.iter().for_each(|(_, b)| put(&b.to_le_bytes()));
    }
    for _ in 0..frames as usize * dim {
        match encoding.compressed {
            true => put(&(rng.bits() as i16).to_le_bytes()),
            false => put(&value(rng).to_le_bytes()),
        }
    }
    if encoding.kind & CHECKSUM != 0 {
        put(&[1, 2]);
    }
    content
}

fn value(rng: &mut Rng) -> f32 {
    let unit = rng.range(0, 2_000_000) as f32 / 1e6 - 1.0;
    match rng.below(12) {
        0 => 0.0,
        1 => -0.0,
        2 => unit * 1e-40,
        3 => unit * 1e30,
        4 => f32::INFINITY,
        _ => unit * 100.0,
    }
}

/// Corrupts a header or the end of an archive.
fn damage(rng: &mut Rng, content: &mut Vec<u8>) {
    match rng.below(5) {
        0 => content.truncate(rng.below(12)),
        1 => content.truncate(content.len() - 1),
        2 => {
            let place = rng.below(12);
            content[place] ^= 1 << rng.below(8);
        }
        3 => content[3] = content[3].wrapping_sub(1),
        _ => content.truncate(content.len() / 2),
    }
}

/// Corrupts a line of a script, or makes it look wrong.
fn spoil(rng: &mut Rng, line: &mut String) {
    let range = line.find('[').unwrap_or(0);
    let spoiled = match rng.below(16) {
        0 => format!("{line} "),
        1 => format!("{line}junk"),
        2 => line.replace(',', ""),
        3 => line.replace('[', "[ ").replace(',', ", ").replace(']', " ]"),
        4 => format!("{}[-1,2]", &line[..range]),
        5 => format!("{}[3,1]", &line[..range]),
        6 => format!("{}[0,999]", &line[..range]),
        7 => line.replace(".mfc[", ".none["),
        8 => String::new(),
        9 => line[..range].to_owned(),
        10 => line.replacen('=', "", 1),
        11 => line.replacen('=', "=x=", 1),
        12 => format!("{}[0x1,0]", &line[..range]),
        13 => format!("{}[a,b]", &line[..range]),
        14 => line.replacen('=', ".more=", 1),
        _ => format!("x{line}"),
    };
    *line = spoiled;
}
