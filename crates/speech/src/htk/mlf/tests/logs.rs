//! Log lines about utterances that are left out, and about index caches.

use super::super::utterances::utterances;
use super::*;
use crate::htk::logged;

/// Returns the lines about a file that has `text` after the header while it is opened and loaded, with
/// `FILE` for its path.
fn lines(text: &str, change: impl FnOnce(&mut MlfOptions)) -> Vec<String> {
    logged::start();
    let file = written(format!("#!MLF!#\n{text}").as_bytes());
    let path = path_of(&file);
    let mut options = MlfOptions { files: vec![path.clone()], ..options(&[]) };
    change(&mut options);
    let labels = open(&options, &corpus()).expect("labels");
    let pool = Pool::shared().expect("a pool");
    (0..labels.chunks().len() as u32)
        .for_each(|chunk| drop(pool.install(|| labels.load(chunk)).expect("a chunk")));
    labels.diagnostics().end_sweep();
    logged::about(&path).into_iter().map(|line| line.replace(&path, "FILE")).collect()
}

const GOOD: &str = "0 1 sil_s2\n.\n";

#[test]
fn utterances_with_repeated_keys() {
    let line = |what: &str, key: &str, offset| {
        format!(
            "Warning: MLF Deserializer: {what} the key of an earlier one, and will not be used: the first one of each key counts. \
             The first to be left out is '{key}' at offset {offset} of 'FILE': remove it, or give it a key of its own."
        )
    };
    let text = |keys: &[&str]| keys.iter().map(|key| format!("\"{key}\"\n{GOOD}")).collect::<String>();
    assert_eq!(lines(&text(&["u1", "u2", "u1"]), |_| ()), [line("1 utterance has", "u1", 8 + 2 * 18)]);
    assert_eq!(
        lines(&text(&["u1", "u2", "u2", "u1"]), |_| ()),
        [line("2 utterances have", "u2", 8 + 2 * 18)]
    );
    assert_eq!(lines(&text(&["u2", "u1"]), |_| ()), [""; 0]);
    // Keys far apart are found by another lookup.
    logged::start();
    let file = written(format!("#!MLF!#\n{}", text(&["9000", "7", "9000"])).as_bytes());
    let numbered = MlfOptions { files: vec![path_of(&file)], ..options(&[]) };
    open(&numbered, &Arc::new(Corpus::Numeric)).expect("labels");
    let [found] = &*logged::about(&path_of(&file)) else { panic!("one line") };
    assert_eq!(found.replace(&path_of(&file), "FILE"), line("1 utterance has", "9000", 8 + 20 + 17));
}

#[test]
fn utterances_without_a_name_or_ranges() {
    let skipped = |key: &str, offset, reason: &str| {
        format!(
            "Warning: Cannot parse the utterance '{key}' at offset ({offset}) of 'FILE': {reason}. It is left out. Expected a line \
             with its name in quotes, and a line 'first last state ...' for each run of frames."
        )
    };
    let total = |count| {
        format!(
            "Warning: 'FILE' had {count} utterances without a name or without ranges of frames, which were left out so far."
        )
    };
    let empty = "it has no ranges of frames";
    assert_eq!(lines(&format!("\"u2\"\n.\n\"u1\"\n{GOOD}"), |_| ()), [skipped("u2", 8, empty)]);
    // Without a key, the key numbered 0 is named, as in CNTK.
    let unnamed = format!("\"u1\"\n{GOOD}u2\n{GOOD}\"u3\"\n.\n");
    let name = "its key line is not a name in quotes";
    assert_eq!(lines(&unnamed, |_| ()), [skipped("u1", 26, name), total(2)]);
}

#[test]
fn utterances_that_cannot_be_parsed() {
    let gap = "\"u1\"\n0 1 sil_s2\n2 3 sil_s2\n.\n";
    let advice = "It is left out, and counts against the reader's";
    let place = "(file FILE, offset 8)";
    for (frame_mode, key) in [(false, "'u1'"), (true, "u1")] {
        let line = format!(
            "Warning: Cannot parse the utterance {key}. {advice} 'maxErrors'. Fix or remove it. {place}"
        );
        let as_cntk = |options: &mut MlfOptions| {
            (options.frame_mode, options.front_end) = (frame_mode, FrontEnd::Cntk);
        };
        assert_eq!(lines(gap, as_cntk), [line]);
    }
    let why = "has a range of frames that does not begin where the one before it ends";
    let line = format!("Warning: The utterance 'u1' {why}. {advice} 'max_errors'. Fix or remove it. {place}");
    assert_eq!(lines(gap, |options| options.front_end = FrontEnd::Python), std::slice::from_ref(&line));
    let two = format!("{gap}{}", gap.replace("u1", "u2"));
    let total =
        "Warning: 'FILE' had 2 utterances that could not be parsed and were left out so far.".to_owned();
    let first = line.replace("'max_errors'", "'maxErrors'");
    assert_eq!(lines(&two, |_| ()), [first, total]);
    let long = format!("\"u1\"\n0 {}00000 sil_s2\n.\n", index::LONGEST + 1);
    let line = format!(
        "Warning: Cannot parse the utterance 'u1': it has {} frames, but at most {} are possible. Split it. (file FILE, offset 8)",
        index::LONGEST + 1,
        index::LONGEST
    );
    assert_eq!(lines(&long, |_| ()), [line]);
    let frames = logged::about("'1' utterances with '12347' frames").len();
    lines("\"u1\"\n0 12347 sil_s2\n.\n", |_| ());
    let line = "Info: MLF Deserializer: '1' utterances with '12347' frames";
    assert_eq!((frames, logged::about("'1' utterances with '12347' frames")), (0, vec![line.to_owned()]));
}

#[test]
fn utterances_left_out_by_conversions() {
    logged::start();
    let states = StateList::read(&data("state.list")).expect("a list");
    let pool = Pool::shared().expect("a pool");
    let read = |text: &str| {
        let file = written(format!("#!MLF!#\n{text}").as_bytes());
        let path = path_of(&file);
        let mut all = pool.install(|| utterances(&path, false, Some(&states))).expect("labels");
        let mut progress = vec![all.progress().0];
        let mut keys = Vec::new();
        for labels in all.by_ref() {
            keys.push(String::from_utf8(labels.expect("labels").key).expect("text"));
        }
        progress.push(all.progress().0);
        assert_eq!(all.progress().1, 8 + text.len() as u64);
        let lines: Vec<_> =
            logged::about(&path).into_iter().map(|line| line.replace(&path, "FILE")).collect();
        (keys, progress, lines)
    };
    let longest = index::LONGEST;
    let total = "Warning: 'FILE' had 3 utterances that could not be read and were left out so far.";
    for (text, line) in [
        (
            "\"u1\"\n.\n".to_owned(),
            "The utterance at offset 8 of 'FILE' has no name or no ranges of frames. It is left out.".to_owned(),
        ),
        (
            "\"u1\"\n0 1 sil_s2\n2 3 sil_s2\n.\n".to_owned(),
            "Cannot parse the utterance 'u1' at offset 8 of 'FILE': Labels are not in the consecutive order MLF in label set for \
             utterance 'u1'. It is left out."
                .to_owned(),
        ),
        (
            format!("\"u1\"\n0 {}00000 sil_s2\n.\n", longest + 1),
            format!(
                "Cannot parse the utterance 'u1' at offset 8 of 'FILE': it has {} frames, but at most {longest} are possible. It is \
                 left out.",
                longest + 1
            ),
        ),
    ] {
        let good = format!("\"u9\"\n{GOOD}");
        let (keys, progress, lines) = read(&format!("{text}{good}"));
        let end = 8 + (text.len() + good.len()) as u64;
        assert_eq!((keys, progress, lines), (vec!["u9".to_owned()], vec![0, end], vec![format!("Warning: {line}")]));
        let (_, _, lines) = read(&format!("{good}{}", text.repeat(3)));
        assert_eq!((lines.len(), &*lines[1]), (2, total));
    }
    // Binary files have positions of utterances.
    let mut all = pool.install(|| utterances(&data("lab2.bin"), true, None)).expect("labels");
    assert_eq!(all.progress().0, 5);
    let offsets: Vec<u64> = all.by_ref().map(|labels| labels.expect("labels").offset).collect();
    assert_eq!((offsets[0], all.progress().0), (5, all.progress().1));
}

#[test]
fn caches_that_are_not_used() {
    logged::start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lab.mlf").to_str().expect("a path").to_owned();
    std::fs::copy(data("lab.mlf"), &path).expect("copying");
    let cached = MlfOptions { files: vec![path.clone()], cache_index: true, ..options(&[]) };
    let hashed = Arc::new(Corpus::Hashed);
    open(&cached, &hashed).expect("labels");
    assert_eq!(logged::about(&path), [""; 0]);
    let cache = format!("{path}.0.1.v1.cache");
    let fresh = std::fs::read(&cache).expect("a cache");
    let damage = |at: usize, bytes: &[u8], reason: &str| {
        let before = logged::about(&path).len();
        let mut damaged = fresh.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&cache, damaged).expect("writing");
        open(&cached, &hashed).expect("labels");
        let lines = logged::about(&path).split_off(before);
        assert_eq!(lines, [format!("Warning: The index cache '{cache}' is not used: {reason}.")]);
    };
    // Key, frames, offset and size of u1 at 32, of u2 at 64.
    damage(40, &[0; 4], "it has an utterance without frames");
    damage(56, &[0; 4], "it has an utterance without frames");
    damage(80, &[76], "its utterances do not lie in the file");
    damage(48, &[7], "its utterances do not match the file");
    damage(48 + 4, &[1], "its utterances do not lie in the file");
    damage(88, &[0, 2], "its utterances do not lie in the file");
    damage(88, &[45], "it omits a part of the file");
    damage(72, &[6], "its utterances do not match the file");
    damage(64, &[0], "its utterances do not match the file");
}
