//! Random label files, well-formed and damaged, compared with a simple line-by-line reference.

use super::super::parse::{self, Rules, Target};
use super::super::ranges::{Columns, bounds, frame_range, usual_line};
use super::super::scan::{EndFinder, Event, TextFile, scan};
use super::super::states::StateList;
use super::{MlfOptions, data, open, options, path_of, written};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::{ChunkTable, Deserializer, Loaded};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::testing::cases;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::HashMap;
use std::sync::Arc;

/// For each key the length, and the labels unless the utterance is invalid.
type Read = HashMap<String, (u32, Option<Vec<u16>>)>;

const HEADER: &str = "#!MLF!#";

/// An utterance as seen by the index.
#[derive(Debug, Clone, PartialEq)]
enum Indexed {
    Utterance { key: String, offset: usize, size: usize, frames: u32 },
    Skipped { key: Option<String>, offset: usize },
    Failed(String),
}

/// Returns the lines with offsets, and whether each has a line break, which the last one may lack.
fn lines(text: &str) -> Vec<(usize, &str, bool)> {
    let mut at = 0;
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        let content = line.strip_suffix('\n').unwrap_or(line);
        lines.push((at, content.strip_suffix('\r').unwrap_or(content), line.ends_with('\n')));
        at += line.len();
    }
    lines
}

fn key_of(line: &str) -> Option<String> {
    let line = line.trim_ascii_end();
    if line.len() <= 2 || !line.starts_with('"') || !line.ends_with('"') {
        return None;
    }
    let name = &line[1..line.len() - 1];
    let name = if name.len() > 2 && name.starts_with("*/") { &name[2..] } else { name };
    Some(name.rsplit_once('.').map_or(name, |(before, _)| before).to_owned())
}

/// Indexes a text line by line.
fn index(text: &str) -> Vec<Indexed> {
    let mut found = Vec::new();
    // The offset of the key line, the key, and the last nonempty line.
    let mut utterance: Option<(usize, Option<String>, Option<&str>)> = None;
    for (at, line, is_complete) in lines(text) {
        let Some((offset, key, last)) = &mut utterance else {
            if !line.is_empty() && line != HEADER && is_complete {
                utterance = Some((at, key_of(line), None));
            }
            continue;
        };
        if line != "." {
            if !line.is_empty() {
                *last = Some(line);
            }
            continue;
        }
        let end = text[at..].find('\n').map_or(text.len(), |length| at + length + 1);
        let (offset, key) = (*offset, key.clone());
        found.push(match (&key, last) {
            (Some(key), Some(last)) => match bounds(last.as_bytes()) {
                Ok(bounds) => {
                    let (key, frames) = (key.clone(), bounds.end as u32);
                    Indexed::Utterance { key, offset, size: end - offset, frames }
                }
                Err(flaw) => {
                    found.push(Indexed::Failed(flaw.message(end as u64)));
                    return found;
                }
            },
            _ => Indexed::Skipped { key, offset },
        });
        utterance = None;
    }
    found
}

/// Returns the labels of an utterance, `None` if it is invalid, or CNTK's message.
fn load(text: &str, offset: usize, frames: u32, states: &StateList) -> Result<Option<Vec<u16>>, String> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for piece in text.split(['\n', '\r']) {
        if !piece.is_empty() {
            pieces.push((at, piece));
        }
        at += piece.len() + 1;
    }
    let (_, key) = pieces[0];
    if key.len() <= 2 || !key.starts_with('"') || !key.ends_with('"') {
        return Ok(None);
    }
    let mut labels = Vec::new();
    let mut first = None;
    for &(at, piece) in &pieces[1..pieces.len() - 1] {
        let range = frame_range(piece.as_bytes(), Some(states));
        let range = range.map_err(|flaw| flaw.message((offset + at) as u64))?;
        let start = *first.get_or_insert(range.start);
        if range.start as usize != start as usize + labels.len() {
            return Ok(None);
        }
        if range.end - range.start > 1000 {
            return Ok(None);
        }
        labels.resize(labels.len() + (range.end - range.start) as usize, range.class);
    }
    labels.truncate(frames as usize);
    Ok((first == Some(0)).then_some(labels))
}

/// Indexes with the module's code, in pieces of `size` bytes.
fn index_in_pieces(path: &str, size: u64) -> Vec<Indexed> {
    let data = DataFile::open(path).expect("a file");
    let file = TextFile { file: &data, size: data.size().expect("a size"), columns: Columns::Blank };
    let pool = Pool::shared().expect("a pool");
    let pieces = pool.install(|| file.pieces_of(size)).expect("pieces");
    assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].start < pair[0].end));
    let (mut text, mut found) = (Vec::new(), Vec::new());
    for piece in pieces {
        let scanned =
            scan(file.read(&piece, &mut text).expect("text"), piece.start, &EndFinder::new(), Columns::Blank)
                .expect("memory");
        let keys: Vec<_> = scanned.keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
        let mut events = scanned.events.into_iter().peekable();
        let utterances = scanned.utterances.iter().zip(keys).map(Some);
        for (number, utterance) in utterances.chain([None]).enumerate() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before == number) {
                match event {
                    Event::Skipped { key, offset } => {
                        let key = key.map(|key| String::from_utf8_lossy(&key).into_owned());
                        found.push(Indexed::Skipped { key, offset: offset as usize });
                    }
                    Event::Unfinished { .. } => {}
                    Event::Failed { flaw, after, .. } => {
                        found.push(Indexed::Failed(flaw.message(after)));
                        return found;
                    }
                }
            }
            let Some((utterance, key)) = utterance else { continue };
            let (offset, size) = (utterance.offset as usize, utterance.size as usize);
            found.push(Indexed::Utterance { key, offset, size, frames: utterance.frames });
        }
    }
    found
}

/// Generates texts of mostly valid utterances, with other lines in between.
fn texts() -> impl Strategy<Value = String> {
    let key =
        select(vec!["\"u1.lab\"", "\"*/u2.lab\"", "\"u3\"", "\"u4.lab\" ", "u5", "\"a.b.lab\"", "\"\""]);
    let odd = select(vec![
        ".",
        "",
        "\r",
        ". ",
        "..",
        " ",
        HEADER,
        "0 5 sil_s2",
        "5 9 aa_s2",
        "9 9 aa_s2",
        "5 4 aa_s2",
        "0 5 XX",
        "0 5",
        "0  5 aa_s2",
        "0\t5\taa_s2",
        "x",
        "\"u2.lab\"",
        "0 900000 aa_s3",
        "0 0 aa_s2",
        "0 5 aa_s2\r5 9 aa_s3",
        "5 9 aa_s2 w",
    ]);
    let utterance =
        (key, proptest::collection::vec(1u32..4, 0..5), any::<bool>()).prop_map(|(key, runs, in_time)| {
            let unit = if in_time { 100_000 } else { 1 };
            let mut lines = vec![key.to_owned()];
            let mut start = 0;
            for (run, state) in runs.into_iter().zip(["sil_s2", "sil_s3", "aa_s2", "bb_s4"]) {
                lines.push(format!("{} {} {state}", start * unit, (start + run) * unit));
                start += run;
            }
            lines.push(".".to_owned());
            lines
        });
    let block = prop_oneof![8 => utterance, 2 => odd.prop_map(|line: &str| vec![line.to_owned()])];
    let lines = proptest::collection::vec(block, 0..12).prop_map(|blocks| blocks.concat());
    let damage = prop_oneof![3 => Just(None), 1 => (0usize..60, any::<bool>()).prop_map(Some)];
    (lines, damage, any::<bool>(), any::<bool>()).prop_map(|(mut lines, damage, returns, is_open)| {
        if let Some((at, remove)) = damage
            && at < lines.len()
        {
            if remove {
                lines.remove(at);
            } else {
                lines.swap(at, 0);
            }
        }
        let line_break = if returns { "\r\n" } else { "\n" };
        let text = format!("{HEADER}{line_break}{}", lines.join(line_break));
        if is_open { text } else { text + line_break }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(400), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn index_matches_the_reference(text in texts()) {
        let expected = index(&text);
        let file = written(text.as_bytes());
        for size in [1, 5, 40, 1 << 20] {
            prop_assert_eq!(&index_in_pieces(&path_of(&file), size), &expected, "pieces of {} bytes", size);
        }
    }

    #[test]
    fn utterances_match_the_reference(text in texts()) {
        let states = StateList::read(&data("state.list")).expect("a list");
        for found in index(&text) {
            let Indexed::Utterance { offset, size, frames, .. } = found else { continue };
            let own = &text[offset..offset + size];
            let expected = load(own, offset, frames, &states);
            let mut classes = vec![0; frames.min(1 << 20) as usize];
            let target = Target { classes: &mut classes, boundaries: None };
            let result = match parse::utterance(own.as_bytes(), Rules { states: Some(&states), dim: 100, columns: Columns::Blank }, target) {
                Ok(Ok(())) => Ok(Some(classes)),
                Ok(Err(_)) => Ok(None),
                Err(parse::Failure::Line { flaw, at }) => Err(flaw.message((offset + at) as u64)),
                Err(failure) => panic!("{failure:?}"),
            };
            prop_assert_eq!(result, expected, "{:?}", own);
        }
    }

    /// Tests the complete reader, over several chunks.
    #[test]
    fn readers_match_the_reference(text in texts(), chunk_size in 1u64..400) {
        let states = StateList::read(&data("state.list")).expect("a list");
        let mut expected = Read::new();
        let mut error = None;
        for found in index(&text) {
            match found {
                Indexed::Utterance { frames: 0, .. } => error = Some(None),
                Indexed::Utterance { key, offset, size, frames } => {
                    match load(&text[offset..offset + size], offset, frames, &states) {
                        Ok(labels) => _ = expected.entry(key).or_insert((frames, labels)),
                        Err(message) => error = error.or(Some(Some(message))),
                    }
                }
                Indexed::Failed(message) => error = Some(Some(message)),
                Indexed::Skipped { .. } => {}
            }
            if matches!(error, Some(None)) {
                break;
            }
        }
        let file = written(text.as_bytes());
        let options = MlfOptions { files: vec![path_of(&file)], chunk_size, ..options(&[]) };
        let corpus = Arc::new(Corpus::symbolic());
        let pool = Pool::shared().expect("a pool");
        let read = || -> cntk_reader_core::Result<Read> {
            let labels = open(&options, &corpus)?;
            let mut found = Read::new();
            for chunk in 0..labels.chunks().len() as u32 {
                let loaded = pool.install(|| labels.load(chunk))?;
                for index in 0..labels.chunks()[chunk as usize].sequences {
                    let id = cntk_reader_core::sequence::SequenceId { chunk, index };
                    let mut keys = Vec::new();
                    labels.keys(&[id], &mut keys);
                    if labels.find(keys[0]) != Some(id) {
                        continue;
                    }
                    let sequence = match loaded.sequence(0, index) {
                        Loaded::Data(view) => Some(super::entries(&view).iter().map(|entry| entry.0).collect()),
                        _ => None,
                    };
                    let length = labels.lengths(chunk).get(index);
                    found.insert(corpus.text_of(keys[0]), (length, sequence));
                }
            }
            Ok(found)
        };
        match (read(), error) {
            (Ok(found), None) => prop_assert_eq!(found, expected),
            (Err(_), Some(None)) => {}
            (Err(found), Some(Some(message))) => {
                // A chunk's errors precede those of the next one, but only reading all chunks finds
                // them all.
                prop_assert!(found.message() == message || message.starts_with("Offset"), "{}", found);
            }
            (found, error) => prop_assert!(false, "{:?} instead of {:?}", found, error),
        }
    }

    #[test]
    fn arbitrary_bytes_cause_no_harm(text in texts(), changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..9)) {
        let mut bytes = text.into_bytes();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        for binary in [false, true] {
            let _ = super::read_text(&bytes, |options| options.binary = binary);
        }
        bytes.splice(..0, *b"MLF\x02\0");
        let _ = super::read_text(&bytes, |options| options.binary = true);
    }

    #[test]
    fn fast_path_matches_frame_range(
        numbers in proptest::collection::vec(
            prop_oneof![
                0..20_u64,
                0..1_000_000_000_000_000_u64,
                (0..9_999_999_999_u64, select(vec![0, 1, 49_999, 50_000, 50_001, 99_998, 99_999]))
                    .prop_map(|(frame, rest)| frame * 100_000 + rest),
            ],
            2,
        ),
        before in select(vec!["", "x\n", "0"]),
        columns in select(vec!["a", "ab_s2", "ab_s2 -5.25", "b", "", " a", "a\rb"]),
        breaks in select(vec!["\n", "\r\n", "\n\n", "\r"]),
        after in select(vec!["", ".", "...................."]),
    ) {
        let states = StateList::from_text(b"a\nab_s2\n".to_vec()).expect("memory").expect("two names");
        let line = format!("{} {} {columns}", numbers[0], numbers[1]);
        let text = format!("{before}{line}{breaks}{after}");
        let usual = usual_line(text.as_bytes(), before.len(), &states);
        let only = line.split('\r').next().unwrap_or_default();
        match frame_range(only.as_bytes(), Some(&states)) {
            Ok(range) if usual.is_some() => {
                let (found, next) = usual.expect("a line");
                prop_assert_eq!(found, range);
                let rest = text[before.len() + only.len()..].trim_start_matches(['\r', '\n']);
                prop_assert_eq!(&text[next..], rest);
            }
            // Other lines are parsed by `frame_range`.
            Ok(range) => prop_assert!(after.len() < 16 || range.start > range.end || columns.contains('\r')),
            Err(_) => prop_assert!(usual.is_none()),
        }
    }
}
