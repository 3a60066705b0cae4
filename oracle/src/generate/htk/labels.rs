//! Generates labels, as text with or without a list of states, and as binary files.

use super::super::rng::Rng;
use super::super::{Mode, Plan};
use super::{Corpus, File, Odd, Part, section};

/// Number of states in the list.
const STATES: usize = 9;

/// A dimension that is too small for some of the classes; others are large enough.
pub const SMALL_LABELS: usize = 6;

/// An utterance's labels: consecutive ranges of frames, each with a class.
struct Labels {
    key: String,
    ranges: Vec<(u32, u32, usize)>,
}

/// Generates the deserializer of the labels. Also returns whether labels end before the features in
/// frame mode.
pub fn write(rng: &mut Rng, plan: &Plan, corpus: &Corpus) -> (Part, bool) {
    let mut all: Vec<Labels> = Vec::new();
    let mut short = false;
    let odd = if corpus.odd == Odd::Lengths { rng.below(corpus.utterances.len()) } else { usize::MAX };
    for (number, utterance) in corpus.utterances.iter().enumerate() {
        if rng.once_in(25) {
            continue;
        }
        let mut frames = utterance.frames;
        if number == odd {
            let longer = rng.once_in(2) || frames == 1;
            frames = if longer { frames + 2 } else { frames - 1 };
            short |= !longer && plan.mode == Mode::Frame;
        }
        all.push(Labels { key: utterance.key.clone(), ranges: ranges(rng, frames) });
    }
    if rng.once_in(6) {
        all.push(Labels { key: "777".to_owned(), ranges: ranges(rng, 3) });
    }
    if rng.once_in(3) {
        for end in (1..all.len()).rev() {
            all.swap(end, rng.below(end + 1));
        }
    }
    // CNTK sorts more than 16 utterances with an unstable sort.
    if rng.once_in(12) && all.len() < 16 && !all.is_empty() && corpus.odd != Odd::Lengths {
        let first = &all[rng.below(all.len())];
        let frames = first.ranges.last().map_or(1, |range| range.1);
        let again = Labels { key: first.key.clone(), ranges: ranges(rng, frames) };
        all.push(again);
    }
    if corpus.odd == Odd::Invalid && !all.is_empty() {
        let place = rng.below(all.len());
        invalidate(rng, &mut all[place]);
    }
    let part = match rng.below(5) {
        0 => binary(rng, plan, corpus, &all),
        _ => text(rng, plan, corpus, &all),
    };
    (part, short)
}

fn ranges(rng: &mut Rng, frames: u32) -> Vec<(u32, u32, usize)> {
    let longest = if frames > 1000 { 5000 } else { 5 };
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < frames {
        let end = frames.min(at + rng.range(1, longest) as u32);
        ranges.push((at, end, rng.below(STATES)));
        at = end;
    }
    ranges
}

/// Makes labels that CNTK leaves out with a warning: a gap between ranges, or a first frame that is
/// not 0.
fn invalidate(rng: &mut Rng, labels: &mut Labels) {
    let place = if rng.once_in(3) { 0 } else { rng.below(labels.ranges.len()) };
    let several = labels.ranges.len() > 1;
    let (begin, end, _) = &mut labels.ranges[place];
    match *end - *begin > 1 || place == 0 && several {
        true => *begin += 1,
        false => *end += 1,
    }
}

/// Generates the entries that both kinds of labels have.
fn entries(rng: &mut Rng, plan: &Plan) -> (Vec<String>, Vec<String>) {
    let dim = if rng.once_in(30) { SMALL_LABELS } else { STATES + rng.below(3) };
    let mut entries = vec![match rng.below(4) {
        0 => format!("labelDim = {dim}"),
        1 => format!("labelDim = {dim} ; dim = 3"),
        _ => format!("dim = {dim}"),
    }];
    if rng.once_in(6) {
        entries.push("cacheIndex = true".to_owned());
    }
    if rng.once_in(8) && (plan.mode != Mode::Frame || rng.once_in(4)) {
        entries.push("phoneBoundaries = true".to_owned());
    }
    let mut outer = Vec::new();
    if rng.once_in(5) {
        outer.push(format!("chunkSizeInBytes = {}", rng.pick(&[1, 40, 100, 1000])));
    }
    (entries, outer)
}

fn text(rng: &mut Rng, plan: &Plan, corpus: &Corpus, all: &[Labels]) -> Part {
    let (mut entries, outer) = entries(rng, plan);
    let mapped = !rng.once_in(4);
    let end = if rng.once_in(6) { "\r\n" } else { "\n" };
    let odd = corpus.odd == Odd::Labels;
    let mut files: Vec<File> = Vec::new();
    let spoiled = odd.then(|| rng.below(all.len().max(1)));
    let mut lines: Vec<String> = Vec::new();
    for (number, labels) in all.iter().enumerate() {
        let before = lines.len();
        utterance(rng, labels, mapped, &mut lines);
        if spoiled == Some(number) {
            spoil(rng, &mut lines, before);
        }
    }
    let halves = if rng.once_in(4) && spoiled.is_none() { split(&lines) } else { None };
    let head = || format!("#!MLF!#{end}");
    match halves {
        Some((one, other)) => {
            files.push(("l0.mlf".to_owned(), (head() + &one.join(end) + end).into_bytes()));
            files.push(("l1.mlf".to_owned(), (head() + &other.join(end) + end).into_bytes()));
            if rng.once_in(2) {
                entries.push("mlfFileList = (\"@DIR@/l0.mlf\":\"@DIR@/l1.mlf\")".to_owned());
            } else {
                files.push(("mlf.list".to_owned(), b"@DIR@/l0.mlf\n@DIR@/l1.mlf".to_vec()));
                entries.push("mlfFileList = \"@DIR@/mlf.list\"".to_owned());
            }
        }
        None => {
            let mut content = head() + &lines.join(end);
            if !rng.once_in(8) {
                content.push_str(end);
            }
            files.push(("l.mlf".to_owned(), content.into_bytes()));
            entries.push("mlfFile = \"@DIR@/l.mlf\"".to_owned());
        }
    }
    if mapped {
        let end = *rng.pick(&["\n", "\n", "\r\n", "\n\n"]);
        let names: Vec<String> = (0..STATES).map(|state| format!("s{state}_x")).collect();
        // Without a line end, CNTK does not find the last one.
        let rest = if rng.once_in(15) { "" } else { end };
        files.push(("state.list".to_owned(), (names.join(end) + rest).into_bytes()));
        entries.push("labelMappingFile = \"@DIR@/state.list\"".to_owned());
    }
    if rng.once_in(3) {
        entries.push("type = \"category\"".to_owned());
    }
    Part { section: section("HTKMLFDeserializer", "labels", &entries, &outer), files }
}

/// Splits a label file into two parts with utterances.
fn split(lines: &[String]) -> Option<(&[String], &[String])> {
    let ends: Vec<usize> = (0..lines.len()).filter(|&line| lines[line] == ".").collect();
    let middle = *ends.get(ends.len() / 2)?;
    (ends.len() > 1 && middle + 1 < lines.len()).then(|| lines.split_at(middle + 1))
}

fn utterance(rng: &mut Rng, labels: &Labels, mapped: bool, lines: &mut Vec<String>) {
    let prefix = rng.pick(&["", "", "", "*/"]);
    // A key loses its extension, so a key with a dot needs one.
    let extension = if labels.key.contains('.') { ".lab" } else { rng.pick(&[".lab", ".lab", ".rec", ""]) };
    lines.push(format!("\"{prefix}{}{extension}\"", labels.key));
    let times = !rng.once_in(4);
    let decimals = rng.once_in(12);
    for &(begin, end, class) in &labels.ranges {
        let unit = if times { 100_000 } else { 1 };
        let number = |frame: u32| match decimals {
            true => format!("{}.0", u64::from(frame) * unit),
            false => (u64::from(frame) * unit).to_string(),
        };
        let (begin, end) = (number(begin), number(end));
        lines.push(match mapped {
            true => {
                format!("{begin} {end} s{class}_x{}", rng.pick(&["", "", "", " ", " -12.5", " -3.5 word 7"]))
            }
            false => format!("{begin} {end} name {class}{}", rng.pick(&["", "", "", ".7"])),
        });
        if rng.once_in(40) {
            lines.push(String::new());
        }
    }
    lines.push(".".to_owned());
}

/// Corrupts the utterance that begins at a line.
fn spoil(rng: &mut Rng, lines: &mut Vec<String>, first: usize) {
    let last = lines.len() - 1;
    let range = first + 1 + rng.below((last - first - 1).max(1));
    match rng.below(18) {
        0 => lines[range] = lines[range].replacen(' ', "\t", 1),
        1 => lines[range] = lines[range].replacen(' ', "  ", 1),
        2 => lines[range].insert(0, ' '),
        3 => lines[range] = lines[range].replace("_x", "_y"),
        4 => lines[first] = lines[first].replace('"', ""),
        5 => lines[first].insert(0, ' '),
        6 => lines[first].push(' '),
        7 => lines[last] = ". ".to_owned(),
        8 => drop(lines.remove(last)),
        9 => lines.insert(first, "#!MLF!#".to_owned()),
        10 => lines.insert(first, "# comment".to_owned()),
        11 => lines[first] = "\"\"".to_owned(),
        12 => lines[range] = lines[range].split(' ').take(2).collect::<Vec<_>>().join(" "),
        13 => lines[range] = lines[range].replacen(' ', "z ", 1),
        14 => drop(lines.drain(first + 1..last)),
        15 => lines[range] = format!("0 0 {}", lines[range].split(' ').skip(2).collect::<Vec<_>>().join(" ")),
        16 => lines[range].push_str(" 5"),
        _ => lines.insert(range, "3 3 s0_x 0".to_owned()),
    }
}

fn binary(rng: &mut Rng, plan: &Plan, corpus: &Corpus, all: &[Labels]) -> Part {
    let (mut entries, outer) = entries(rng, plan);
    let numbered = corpus.numeric && rng.once_in(2);
    let mut content = b"MLF".to_vec();
    content.extend(if numbered { 1i16 } else { 2 }.to_le_bytes());
    for Labels { key, ranges } in all {
        match key.parse::<u32>() {
            Ok(number) if numbered => content.extend(number.to_le_bytes()),
            _ => {
                content.extend((key.len() as u16).to_le_bytes());
                content.extend(key.as_bytes());
            }
        }
        content.extend(ranges.last().map_or(0, |range| range.1).to_le_bytes());
        content.extend((ranges.len() as u16).to_le_bytes());
        for &(begin, end, class) in ranges {
            content.extend((class as u16).to_le_bytes());
            content.extend(((end - begin) as u16).to_le_bytes());
        }
    }
    if corpus.odd == Odd::Labels {
        match rng.below(4) {
            0 => content.truncate(content.len() - 1 - rng.below(content.len().min(9))),
            1 => content[0] = b'm',
            2 => content[3] = 3,
            _ => content.extend([0; 3]),
        }
    }
    entries.push("mlfFile = \"@DIR@/l.bin\"".to_owned());
    Part {
        section: section("HTKMLFBinaryDeserializer", "labels", &entries, &outer),
        files: vec![("l.bin".to_owned(), content)],
    }
}
