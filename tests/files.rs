//! Several files as one deserializer, compared with one file that has all of their data; and the
//! differences: keys, errors, and the checks of checkpoints.

mod common;

use cntk_reader::language::from_text;
use cntk_reader::{Error, Result};
use cntk_reader_core::error::ErrorKind;
use cntk_reader_core::runtime::log::set_sink;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::testing;
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader, Sizes};
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use common::rng::Rng;
use common::scenario::{LIMIT, Scenario, compare, open};
use common::seen::{Seen, read, read_all};
use std::fmt::Write as _;
use std::fs;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Lets one test run at a time, because one of them replaces the process's log sink.
static TURN: Mutex<()> = Mutex::new(());

fn quiet() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    common::quiet();
    turn
}

/// The source of the ids of lines, and whether files share one numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ids,
    Lines,
    Binary,
}

/// Splits a text with ids into parts of at least one sequence each.
fn parts(rng: &mut Rng, text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut last = None;
    for line in text.lines() {
        let id = line.split(' ').next();
        if last.is_some() && last != id && rng.once_in(4) {
            parts.push(String::new());
        }
        last = id;
        let part = parts.last_mut().expect("a part");
        writeln!(part, "{line}").expect("writing to a string");
    }
    parts
}

/// Returns a line for each sequence, without ids.
fn without_ids(text: &str) -> String {
    text.lines().filter_map(|line| line.split_once(' ')).map(|(_, line)| format!("{line}\n")).collect()
}

/// Writes a file of this kind.
fn write(scenario: &Scenario, kind: Kind, path: &Path, text: &str) {
    if kind != Kind::Binary {
        return fs::write(path, text).expect("writing data");
    }
    let source = path.with_extension("txt");
    let dense: Vec<_> = text.lines().map(|line| line.split(" |s").next().unwrap_or_default()).collect();
    fs::write(&source, dense.join("\n") + "\n").expect("writing data");
    // An empty sparse sample would result in a sequence without samples, which binary files cannot
    // have.
    convert(&source, path, &format!("x x dense {}", scenario.data.dense));
}

fn convert(from: &Path, to: &Path, streams: &str) {
    let options = TextToBinary {
        input: from.display().to_string(),
        output: to.display().to_string(),
        streams: parse_streams(streams).expect("streams"),
        chunk_size: 0,
        element: ElementType::Float,
        ctf2bin_compatible: false,
    };
    text_to_binary(&options, &mut |_| ControlFlow::Continue(())).expect("a conversion");
}

#[test]
fn several_files_read_like_one_file() {
    let _turn = quiet();
    for seed in 0..u64::from(testing::cases(600)) {
        let mut scenario = Scenario::random(seed);
        // Every sequence is a chunk, so that one file and several have equal chunks.
        scenario.chunk_size = 1;
        let kind = [Kind::Ids, Kind::Lines, Kind::Binary][seed as usize % 3];
        let folder = tempfile::tempdir().expect("a temporary folder");
        let outcome = catch_unwind(AssertUnwindSafe(|| as_one(seed, &scenario, kind, folder.path())));
        if let Err(panic) = outcome {
            eprintln!("scenario {seed}, {kind:?}: {scenario:#?}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn as_one(seed: u64, scenario: &Scenario, kind: Kind, folder: &Path) {
    let rng = &mut Rng::new(seed);
    let mut parts = parts(rng, &scenario.data.text);
    if kind == Kind::Lines {
        parts.iter_mut().for_each(|part| *part = without_ids(part));
    }
    let whole = folder.join("whole");
    write(scenario, kind, &whole, &parts.concat());
    for (number, part) in parts.iter().enumerate() {
        write(scenario, kind, &folder.join(format!("part-{number:02}")), part);
    }
    let config = match kind {
        Kind::Binary => {
            scenario.head.clone()
                + &format!(
                    "deserializers = ([ type = CNTKBinaryFormatDeserializer ; module = CNTKBinaryReader\n file = \"{}\"\n])\n",
                    whole.display()
                )
        }
        Kind::Ids | Kind::Lines => scenario.config(&whole),
    };
    let list = match rng.once_in(2) {
        true => format!("\"{}\"", folder.join("part-??").display()),
        false => {
            let paths = (0..parts.len()).map(|number| folder.join(format!("part-{number:02}")));
            let paths: Vec<_> = paths.map(|path| format!("\"{}\"", path.display())).collect();
            format!("({})", paths.join(":"))
        }
    };
    let keep = if rng.once_in(4) { "keepDataInMemory = true\n" } else { "" };
    let several = format!("file = {list}\n sharedIds = true\n{keep}");
    let several = config.replace(&format!("file = \"{}\"\n", whole.display()), &several);
    assert_ne!(several, config);

    let wanted = read_all(&mut scenario.started(&config), LIMIT).expect("one file");
    let mut reader = scenario.started(&several);
    compare("several files", &read_all(&mut reader, LIMIT).expect("several files"), &wanted);
    let one = scenario.started(&config);
    assert_eq!(sizes(&reader), sizes(&one));

    let at = (scenario.interruption % wanted.len() as u64) as usize;
    let mut reader = scenario.started(&several);
    for wanted in &wanted[..at] {
        assert_eq!(&read(&mut reader).expect("a minibatch"), wanted, "before the interruption");
    }
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    let mut fresh = open(&several);
    fresh.restore(&checkpoint).expect("restoring a new reader");
    compare("restored", &read_all(&mut fresh, LIMIT).expect("the rest"), &wanted[at..]);
}

/// Returns how much data there is. A short epoch may end while the rest of the file is still being
/// indexed.
fn sizes(reader: &Reader) -> Sizes {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let sizes = reader.sizes();
        if sizes.chunks.is_some() {
            return sizes;
        }
        assert!(Instant::now() < deadline, "the index is never complete");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the options of a text deserializer with the stream `x` of one dense value.
fn text(file: &str, more: &str) -> String {
    named("x", file, more)
}

fn named(stream: &str, file: &str, more: &str) -> String {
    format!(
        "[ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader ; {more}\n file = {file}\n\
         input = [ {stream} = [ dim = 1 ; format = dense ] ] ]"
    )
}

fn config(head: &str, deserializers: &[String]) -> String {
    format!("{head}\ndeserializers = ({})", deserializers.join(":"))
}

const IN_ORDER: &str = "randomize = false";

fn try_open(config: &str) -> Result<Reader> {
    Reader::open(&from_text(config)?)
}

fn failure(config: &str) -> Error {
    match try_open(config).and_then(|mut reader| run(&mut reader, 1)) {
        Ok(_) => panic!("no error"),
        Err(error) => error,
    }
}

fn run(reader: &mut Reader, minibatch: u64) -> Result<Vec<Seen>> {
    reader.start_epoch(&Epoch::sweeps(1).read_config(ReadConfig::new(minibatch)))?;
    read_all(reader, LIMIT)
}

/// Returns the keys and values of all sequences, for streams of one dense value.
fn contents(config: &str) -> Vec<(u64, Vec<f32>)> {
    let mut reader = try_open(config).expect("a reader");
    let mut all = Vec::new();
    for seen in run(&mut reader, 1).expect("minibatches") {
        for key in seen.keys {
            let value =
                |data: &Vec<u8>| f32::from_ne_bytes(*data.as_chunks::<4>().0.first().expect("a value"));
            all.push((key, seen.streams.iter().map(|stream| value(&stream.data)).collect()));
        }
    }
    all
}

/// Creates a folder with these files, and returns a list of their paths.
fn files(files: &[(&str, &str)]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut list = Vec::new();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("writing data");
        list.push(format!("\"{}\"", path.display()));
    }
    (folder, format!("({})", list.join(":")))
}

const PLACE: u64 = 1 << 44;

#[test]
fn keys_contain_the_number_of_their_file() {
    let _turn = quiet();
    let (_folder, list) = files(&[("a", "1 |x 10\n7 |x 11\n"), ("b", "1 |x 20\n"), ("c", "|x 30\n|x 31\n")]);
    let got = contents(&config(IN_ORDER, &[text(&list, "")]));
    let keys = [1, 7, PLACE + 1, 2 * PLACE, 2 * PLACE + 1];
    let values = [10.0, 11.0, 20.0, 30.0, 31.0];
    let wanted: Vec<_> = keys.into_iter().zip(values.map(|value| vec![value])).collect();
    assert_eq!(got, wanted);
}

#[test]
fn lists_are_joined_file_by_file_unless_ids_are_shared() {
    let _turn = quiet();
    let (folder, x) = files(&[("a", "1 |x 10\n2 |x 11\n"), ("b", "1 |x 20\n3 |x 21\n")]);
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("writing data");
        format!("\"{}\"", path.display())
    };
    let y = format!("({}:{})", write("c", "2 |y 12\n1 |y 13\n"), write("d", "3 |y 22\n2 |y 23\n"));
    let got = contents(&config(IN_ORDER, &[text(&x, ""), named("y", &y, "")]));
    assert_eq!(got, [(1, vec![10.0, 13.0]), (2, vec![11.0, 12.0]), (PLACE + 3, vec![21.0, 22.0])]);
    // A single file counts as the first of a list.
    let one = write("e", "1 |y 5\n");
    let got = contents(&config(IN_ORDER, &[text(&x, ""), named("y", &one, "")]));
    assert_eq!(got, [(1, vec![10.0, 5.0])]);
    // With shared ids, the first of several sequences with one id is found.
    let y = format!("({}:{})", write("f", "3 |y 1\n2 |y 2\n"), write("g", "2 |y 3\n1 |y 4\n"));
    let shared = "sharedIds = true";
    let got = contents(&config(IN_ORDER, &[text(&x, shared), named("y", &y, shared)]));
    assert_eq!(got, [(1, vec![10.0, 4.0]), (2, vec![11.0, 2.0]), (1, vec![20.0, 4.0]), (3, vec![21.0, 1.0])]);
    // The same applies to textual ids.
    let head = "randomize = false\nuseNumericSequenceKeys = false";
    let got = contents(&config(head, &[text(&x, ""), named("y", &y, "")]));
    let values: Vec<_> = got.into_iter().map(|(_, values)| values).collect();
    assert_eq!(values, [[10.0, 4.0], [11.0, 2.0], [20.0, 4.0], [21.0, 1.0]]);
}

#[test]
fn binary_files_join_text_by_file_number() {
    let _turn = quiet();
    let (folder, x) = files(&[("a", "0 |x 10\n1 |x 11\n"), ("b", "1 |x 20\n0 |x 21\n")]);
    let path = |name: &str| folder.path().join(name);
    fs::write(path("c"), "0 |y 12\n1 |y 13\n").expect("writing data");
    fs::write(path("d"), "0 |y 22\n1 |y 23\n").expect("writing data");
    convert(&path("c"), &path("y-1.cbf"), "y y dense 1");
    convert(&path("d"), &path("y-2.cbf"), "y y dense 1");
    let binary = format!(
        "[ type = CNTKBinaryFormatDeserializer ; module = CNTKBinaryReader\n file = \"{}\" ]",
        path("y-*.cbf").display()
    );
    let got = contents(&config(IN_ORDER, &[text(&x, ""), binary.clone()]));
    assert_eq!(
        got,
        [
            (0, vec![10.0, 12.0]),
            (1, vec![11.0, 13.0]),
            (PLACE + 1, vec![20.0, 23.0]),
            (PLACE, vec![21.0, 22.0])
        ]
    );
    // With one shared numbering, ordinals count through all files.
    let (_other, x) = files(&[("a", "3 |x 1\n0 |x 2\n")]);
    let shared = binary.replace("module", "sharedIds = true ; module");
    let got = contents(&config(IN_ORDER, &[text(&x, ""), shared]));
    assert_eq!(got, [(3, vec![1.0, 23.0]), (0, vec![2.0, 12.0])]);
}

#[test]
fn more_files_than_are_kept_open() {
    let _turn = quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut whole = String::new();
    for file in 0..600 {
        let mut part = String::new();
        for id in 3 * file..3 * file + 3 {
            writeln!(part, "{id} |x {id}").expect("writing to a string");
        }
        fs::write(folder.path().join(format!("part-{file:03}")), &part).expect("writing data");
        whole += &part;
    }
    fs::write(folder.path().join("whole"), whole).expect("writing data");
    let open_files = || fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = open_files();
    for head in [IN_ORDER, "randomizationWindow = 5\nsampleBasedRandomizationWindow = false"] {
        let file = |name: &str| format!("\"{}\"", folder.path().join(name).display());
        let more = "chunkSizeInBytes = 1 ; sharedIds = true";
        let several = config(head, &[text(&file("part-*"), more)]);
        let got = contents(&several);
        assert_eq!(got, contents(&config(head, &[text(&file("whole"), more)])));
        assert_eq!(got.len(), 1800);

        let mut reader = try_open(&several).expect("a reader");
        // Other tests may have opened a few files by now.
        assert!(open_files() < before + 100);
        let changed = folder.path().join("part-599");
        fs::write(&changed, "1797 |x 1\n").expect("writing data");
        let error = run(&mut reader, 100).expect_err("the file was changed");
        assert!(error.message().ends_with("part-599' was changed while it was in use."), "{error}");
        assert_eq!(error.location().file.as_deref(), changed.to_str());
        fs::write(&changed, "1797 |x 1797\n1798 |x 1798\n1799 |x 1799\n").expect("writing data");
    }
}

#[test]
fn errors_name_the_file() {
    let _turn = quiet();
    let (folder, list) = files(&[("a", "1 |x 1\n"), ("b", "1 |x 1\n2 |x ?\n"), ("c", "x\n")]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    for head in [IN_ORDER, "randomize = true"] {
        // The third file cannot be indexed; in the order of the data the second one is read first.
        let error = failure(&config(head, &[text(&list, "")]));
        let wanted = if head == IN_ORDER { "b" } else { "c" };
        assert_eq!(error.location().file, Some(path(wanted)), "{error}");
        let error = failure(&config(head, &[text(&format!("\"{}\"", path("[ab]")), "")]));
        assert_eq!(
            (error.location().file.clone(), error.location().line),
            (Some(path("b")), Some(2)),
            "{error}"
        );
        let error = failure(&config(head, &[text(&format!("(\"{}\":\"{}\")", path("a"), path("none")), "")]));
        assert_eq!((error.kind(), error.location().file.clone()), (ErrorKind::Io, Some(path("none"))));
        let error = failure(&config(head, &[text(&format!("\"{}\"", path("x*")), "")]));
        assert_eq!(
            error.message(),
            format!("No file in the folder '{}' matches 'x*'.", folder.path().display())
        );
    }
}

#[test]
fn errors_are_tolerated_in_all_files_together() {
    let _turn = quiet();
    let (folder, list) =
        files(&[("a", "1 |x 1\n1 |x ?\n"), ("b", "3 |x 1\n4 |x 1\n4 |x ?\n"), ("c", "5 |x 1\n5 |x ?\n")]);
    let whole = folder.path().join("whole");
    let parts = ["a", "b", "c"].map(|name| fs::read_to_string(folder.path().join(name)).expect("a file"));
    fs::write(&whole, parts.concat()).expect("writing data");
    let whole = format!("\"{}\"", whole.display());
    for head in [IN_ORDER, "randomize = true"] {
        let least = |file: &str| {
            let is_enough = |most: &u32| {
                let config = config(head, &[text(file, &format!("maxErrors = {most}"))]);
                match try_open(&config).and_then(|mut reader| run(&mut reader, 4)) {
                    Ok(_) => true,
                    Err(error) => {
                        assert!(error.message().starts_with("Reached the maximum number of"), "{error}");
                        false
                    }
                }
            };
            (0..50).find(is_enough).expect("a number of errors")
        };
        let wanted = least(&whole);
        assert!(wanted >= 3, "{wanted}");
        assert_eq!(least(&list), wanted);
    }
}

#[test]
fn ids_must_leave_room_for_the_file_number() {
    let _turn = quiet();
    let large = format!("1 |x 1\n{PLACE} |x 2\n3 |x 1\n");
    let (folder, list) = files(&[("a", "1 |x 1\n"), ("b", &large)]);
    for head in [IN_ORDER, "randomize = true"] {
        let error = failure(&config(head, &[text(&list, "")]));
        assert_eq!(
            error.message(),
            "Sequence id 17592186044416 is too large for a file that is one of several."
        );
        assert_eq!(error.location().file.as_deref(), folder.path().join("b").to_str());
        assert_eq!(error.location().line, Some(2));
        let mut keys: Vec<_> = contents(&config(head, &[text(&list, "sharedIds = true")]))
            .into_iter()
            .map(|one| one.0)
            .collect();
        keys.sort_unstable();
        assert_eq!(keys, [1, 1, 3, PLACE]);
    }
}

#[test]
fn binary_files_need_equal_streams() {
    let _turn = quiet();
    let (folder, _) = files(&[("a", "0 |x 1\n"), ("b", "0 |x 1 2\n")]);
    let path = |name: &str| folder.path().join(name);
    convert(&path("a"), &path("1.cbf"), "x x dense 1");
    convert(&path("b"), &path("2.cbf"), "x x dense 2");
    let file = path("*.cbf");
    let binary = format!(
        "[ type = CNTKBinaryFormatDeserializer ; module = CNTKBinaryReader\n file = \"{}\" ]",
        file.display()
    );
    let error = failure(&config(IN_ORDER, &[binary]));
    assert_eq!(error.message(), "The files of a deserializer have different streams.");
    assert_eq!(error.location().file.as_deref(), path("2.cbf").to_str());
}

#[test]
fn checkpoints_refuse_another_list() {
    let _turn = quiet();
    let (folder, _) = files(&[("a", "1 |x 1\n"), ("b", "1 |x 2\n"), ("c", "1 |x 3\n")]);
    let path = |name: &str| folder.path().join(name);
    let list = |names: &[&str]| {
        let paths: Vec<_> = names.iter().map(|name| format!("\"{}\"", path(name).display())).collect();
        format!("({})", paths.join(":"))
    };
    for head in [IN_ORDER, "randomize = true"] {
        let opened = |names: &[&str], more: &str| open(&config(head, &[text(&list(names), more)]));
        let mut reader = opened(&["a", "b", "c"], "");
        reader.start_epoch(&Epoch::sweeps(1).read_config(ReadConfig::new(1))).expect("an epoch");
        reader.read().expect("a minibatch");
        let checkpoint = reader.checkpoint().expect("a checkpoint");
        opened(&["a", "b", "c"], "").restore(&checkpoint).expect("the list");
        for (names, more) in
            [(&["a", "c", "b"][..], ""), (&["a", "b"], ""), (&["a", "b", "c"], "sharedIds = true")]
        {
            let error = opened(names, more).restore(&checkpoint).expect_err("another list");
            assert!(error.message().contains("fingerprint of the data"), "{error}");
        }
        fs::write(path("c"), "1 |x 3.0\n").expect("writing data");
        let error = opened(&["a", "b", "c"], "").restore(&checkpoint).expect_err("another size");
        assert!(error.message().contains("fingerprint of the data"), "{error}");
        fs::write(path("c"), "1 |x 3\n").expect("writing data");
    }
}

#[test]
fn shared_ids_in_two_files_warn() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&lines);
    set_sink(Some(Arc::new(move |_, line| seen.lock().expect("no panic").push(line.to_owned()))));
    let (folder, list) = files(&[("a", "1 |x 1\n2 |x 1\n"), ("b", "3 |x 2\n2 |x 2\n")]);
    for head in [IN_ORDER, "randomize = true"] {
        contents(&config(head, &[text(&list, "")]));
        assert_eq!(*lines.lock().expect("no panic"), [""; 0]);
        // Messages about keys name the file.
        let one = format!("\"{}\"", folder.path().join("a").display());
        contents(&config(head, &[text(&list, ""), named("y", &one, "").replace("dim", "alias = x ; dim")]));
        let dropped = std::mem::take(&mut *lines.lock().expect("no panic"));
        let wanted = format!("lacks them: 3 of '{0}', 2 of '{0}'.", folder.path().join("b").display());
        assert!(dropped.len() == 1 && dropped[0].contains(&wanted), "{dropped:?}");
        contents(&config(head, &[text(&list, "sharedIds = true")]));
        let [line] = &std::mem::take(&mut *lines.lock().expect("no panic"))[..] else {
            panic!("{head}: not one line")
        };
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let start = format!(
            "Sequence 2 of '{}' begins at line 2 (offset 7) and again at line 2 (offset 7) of '{}':",
            a.display(),
            b.display()
        );
        assert!(line.starts_with(&start), "{line}");
    }
    set_sink(None);
}

/// The error of a sequence names its id and its file, even if lists are joined.
#[test]
fn errors_of_joined_lists_name_key_and_file() {
    let _turn = quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (name, text) in [
        ("a1", "0 |x 1\n1 |x 1\n"),
        ("a2", "0 |x 1\n0 |x 2\n"),
        ("b1", "0 |y 1\n1 |y 1\n"),
        ("b2", "0 |y 1\n"),
    ] {
        fs::write(path(name), text).expect("writing the data");
    }
    let element = |stream: &str, files: &str| {
        format!(
            "[ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = ({files})\n\
             input = [ {stream} = [ dim = 1 ; format = \"dense\" ] ] ]"
        )
    };
    let lists = [("x", "a1", "a2"), ("y", "b1", "b2")];
    let elements: Vec<_> = lists
        .iter()
        .map(|(stream, one, two)| element(stream, &format!("\"{}\":\"{}\"", path(one), path(two))))
        .collect();
    let mode = "truncated = true ; truncationLength = 2";
    let config =
        format!("randomize = false ; {mode} ; traceLevel = 0\ndeserializers = ({})", elements.join(":"));
    let mut reader = Reader::open(&from_text(&config).expect("a configuration")).expect("a reader");
    let read = ReadConfig::new(2).truncation_length(2);
    reader.start_epoch(&Epoch::sweeps(1).read_config(read)).expect("an epoch");
    let error = (0..6).find_map(|_| reader.read().err()).expect("streams of different lengths");
    let wanted = format!("0 of '{}'", path("a2"));
    assert_eq!(error.location().key.as_deref(), Some(&*wanted), "{error}");
}
