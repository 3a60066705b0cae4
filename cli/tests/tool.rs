//! The tool as a program: its output to a pipe, and its exit codes.

#[allow(dead_code, reason = "not every test program needs every helper")]
mod common;

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The tool in a temporary folder.
struct Tool(tempfile::TempDir);

impl Tool {
    fn new() -> Tool {
        Tool(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, name: &str, content: &str) -> &Tool {
        std::fs::write(self.path().join(name), content).expect("writing");
        self
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = common::program();
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let Output { status, stdout, stderr } = self.command(arguments).output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Ran { exit: status.code(), out: text(stdout), error: text(stderr) }
    }
}

struct Ran {
    exit: Option<i32>,
    out: String,
    error: String,
}

impl Ran {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.error))
    }

    fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

const DIGITS: &str = "|x 1 2 3 |y 3:1\n|x 4 5 6 |y 0:1\n|x 7 8 9.5 |y 9:1\n";

const DAMAGED: &str = "\
1 |x 1 2 3 |y 3:1
2 |x 1 2 |y 4:1
3 |x 1 2 3 4 |y 4:1
4 |x 1 a 3 |y 4:1
5 |x 1 2 3 |y 8:1 |z 5
5 |x 1 2 3 |y 9:1
6 |x 1 2 3
";

/// A configuration that reads text files, each with its streams.
fn configuration(files: &[(&str, &str)]) -> String {
    let one = |(file, input): &(&str, &str)| {
        let kind = r#"type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader""#;
        format!("[ {kind} ; file = {file} ; input = [ {input} ] ]")
    };
    format!("deserializers = ( {} )", files.iter().map(one).collect::<Vec<_>>().join(" : "))
}

const CONFIGURATION: &str = r#"
deserializers = (
    [ type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader" ; file = "a.ctf"
      input = [ x = [ dim = 3 ; format = "dense" ] ; y = [ dim = 9 ; format = "sparse" ] ] ] )
"#;

#[test]
fn info_finds_the_streams_of_a_file() {
    let tool = Tool::new();
    let ran = tool.file("a.ctf", DIGITS).run(&["info", "a.ctf", "--format", "json"]);
    let info = ran.json();
    assert_eq!((ran.exit, &info["schema"], &info["complete"]), (Some(0), &json!(1), &json!(true)));
    let one = &info["deserializers"][0];
    assert_eq!(
        [&one["sequences"], &one["samples"], &one["bytes"]],
        [&json!(3), &json!(3), &json!(DIGITS.len())]
    );
    assert_eq!([&one["lengths"]["p50"], &one["index"]["state"]], [&json!(1), &json!("missing")]);
    let streams = one["streams"].as_array().expect("streams");
    let [x, y] = &streams[..] else { panic!("{streams:?}") };
    let describe =
        |stream: &Value| ["name", "storage", "dim", "dim_seen"].map(|member| stream[member].clone());
    assert_eq!(describe(x), [json!("x"), json!("dense"), json!(3), json!(3)]);
    assert_eq!(describe(y), [json!("y"), json!("sparse"), json!(10), json!(10)]);
    assert_eq!([&y["values"], &y["density"]], [&json!(3), &json!(0.1)]);
}

#[test]
fn a_configuration_made_by_info_reads_the_file() {
    let tool = Tool::new();
    let named = "b |x 1 |y 3:1\na |x 4 |y 0:1\nc |x 7 |y 9:1\n";
    for (content, keys) in [(DIGITS, ["0", "1", "2"]), (named, ["b", "a", "c"])] {
        let made = tool.file("a.ctf", content).run(&["info", "a.ctf", "--config"]);
        assert_eq!(made.exit, Some(0), "{}", made.error);
        let of_file = tool.run(&["info", "a.ctf", "--format", "json"]).json();
        let of_configuration =
            tool.file("a.cntk", &made.out).run(&["info", "a.cntk", "--format", "json"]).json();
        assert_eq!(of_file["deserializers"][0]["streams"], of_configuration["deserializers"][0]["streams"]);
        let head = tool.run(&["head", "a.cntk"]);
        let seen: Vec<_> = head.lines().iter().map(|line| line["key"].clone()).collect();
        assert_eq!(seen, keys, "{}", head.error);
    }
}

#[test]
fn info_of_an_indexed_file_reads_only_some_of_it() {
    let tool = Tool::new();
    let mut text = String::new();
    for line in 0..3000 {
        let _ = writeln!(text, "{} |x {line} 1 2 |y {}:1", line / 3, line % 9);
    }
    let cached = CONFIGURATION.replace("input", "cacheIndex = true ; chunkSizeInBytes = 4000 ; input");
    tool.file("a.ctf", &text).file("a.cntk", &cached);
    let full = tool.run(&["info", "a.cntk", "--full", "--format", "json"]).json();
    let brief = tool.run(&["info", "a.cntk", "--format", "json"]).json();
    assert_eq!([&full["complete"], &brief["complete"]], [&json!(true), &json!(false)]);
    let (full, brief) = (&full["deserializers"][0], &brief["deserializers"][0]);
    for member in ["name", "type", "bytes", "sequences", "samples", "chunks", "lengths", "streams"] {
        assert_eq!(full[member], brief[member], "{member}");
    }
    assert_eq!([&brief["sequences"], &brief["index"]["state"]], [&json!(1000), &json!("fits")]);
    // The file without a configuration has the same cache.
    let bare = tool.run(&["info", "a.ctf", "--format", "json"]).json();
    assert_eq!([&bare["deserializers"][0]["sequences"], &bare["complete"]], [&json!(1000), &json!(false)]);
    // Replace the file, but keep its modification time: the cache does not fit, and everything is
    // read. With a newer time, the cache would be outdated if a second had passed.
    let file = tool.path().join("a.ctf");
    let time = file.metadata().and_then(|metadata| metadata.modified()).expect("a time");
    tool.file("a.ctf", DAMAGED);
    let opened = std::fs::File::options().append(true).open(&file);
    opened.and_then(|file| file.set_modified(time)).expect("setting the time");
    let changed = tool.run(&["info", "a.ctf", "--format", "json"]).json();
    assert_eq!(changed["complete"], json!(true));
    assert_eq!(changed["deserializers"][0]["index"]["state"], json!("unfit"));
}

#[test]
fn info_of_indexed_files_reads_only_some_of_them() {
    let tool = Tool::new();
    for (name, sequences) in [("a1.ctf", 700), ("a2.ctf", 50), ("a3.ctf", 300)] {
        let lines = (0..sequences * 2).map(|line| format!("{} |x {line} 1 2 |y {}:1\n", line / 2, line % 9));
        tool.file(name, &lines.collect::<String>());
    }
    let files = configuration(&[(
        r#""a*.ctf" ; cacheIndex = true ; chunkSizeInBytes = 4000"#,
        r#"x = [ dim = 3 ; format = "dense" ] ; y = [ dim = 9 ; format = "sparse" ]"#,
    )]);
    tool.file("a.cntk", &files);
    let info =
        |options: &[&str]| tool.run(&[&["info", "a.cntk", "--format", "json"], options].concat()).json();
    // The first call indexes the files and writes their caches.
    let first = info(&[]);
    assert_eq!(
        [&first["complete"], &first["deserializers"][0]["index"]["state"]],
        [&json!(true), &json!("fits")]
    );
    let (full, brief) = (info(&["--full"]), info(&[]));
    assert_eq!([&full["complete"], &brief["complete"]], [&json!(true), &json!(false)]);
    let (full, brief) = (&full["deserializers"][0], &brief["deserializers"][0]);
    for member in ["name", "type", "bytes", "sequences", "samples", "chunks", "lengths", "streams"] {
        assert_eq!(full[member], brief[member], "{member}");
    }
    assert_eq!(brief["sequences"], json!(1050));
    // Replace one of the files.
    tool.file("a2.ctf", "1 |x 1 2 3 |y 1:1\n2 |x 1 2 3 |y 1:1\n");
    assert_eq!(info(&[])["complete"], json!(true));
}

#[test]
fn validate_lists_everything_with_its_place() {
    let tool = Tool::new();
    let ran = tool.file("a.ctf", DAMAGED).file("a.cntk", CONFIGURATION).run(&["validate", "a.cntk"]);
    let places: Vec<_> =
        ran.out.lines().map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "a.ctf:2:27:x:2 warning",
        "a.ctf:3:47:x:3 error",
        "a.ctf:4:61:x:4 error",
        "a.ctf:6:110:y:5 error",
        "a.ctf:7:113:y:6 error",
        "a.ctf:::: note",
        "a.ctf:5:72:y:5 note",
    ];
    assert_eq!((ran.exit, places.as_slice()), (Some(1), &expected.map(str::to_owned)[..]), "{}", ran.out);
    assert!(ran.out.contains("A dense sample has 4 values, but 'dim' of"), "{}", ran.out);
    assert!(ran.out.contains("A value is not a number: it begins with 'a'."), "{}", ran.out);
    assert!(ran.out.contains("Samples with the name 'z' are not read"), "{}", ran.out);
    assert!(ran.error.contains("4 errors, 1 warning, 2 notes."), "{}", ran.error);
    let rate = format!("Read {} B in ", DAMAGED.len());
    assert!(ran.error.contains(&rate) && ran.error.contains("B/s"), "{}", ran.error);
}

#[test]
fn validate_writes_json_for_programs() {
    let tool = Tool::new();
    tool.file("a.ctf", DAMAGED).file("a.cntk", CONFIGURATION);
    let ran = tool.run(&["validate", "a.cntk", "--format", "ndjson", "--quiet"]);
    assert_eq!((ran.exit, ran.error.as_str()), (Some(1), ""));
    let lines = ran.lines();
    assert_eq!(lines.len(), 8);
    let third =
        ["severity", "file", "line", "offset", "stream", "key"].map(|member| lines[1][member].clone());
    assert_eq!(third, [json!("error"), json!("a.ctf"), json!(3), json!(47), json!("x"), json!("3")]);
    let summary = ["schema", "command", "errors", "complete"].map(|member| lines[7][member].clone());
    assert_eq!(summary, [json!(1), json!("validate"), json!(4), json!(true)]);
    let whole = tool.run(&["validate", "a.cntk", "--format", "json"]).json();
    assert_eq!((&whole["errors"], whole["findings"].as_array().map(Vec::len)), (&json!(4), Some(7)));
}

#[test]
fn validate_ends_early_if_asked_to() {
    let tool = Tool::new();
    tool.file("a.ctf", DAMAGED).file("a.cntk", CONFIGURATION);
    for (options, lines) in
        [(&["--fail-fast"][..], 1), (&["--max-errors", "3"], 3), (&["--max-errors", "0"], 7)]
    {
        let ran = tool.run(&[&["validate", "a.cntk"][..], options].concat());
        assert_eq!((ran.exit, ran.out.lines().count()), (Some(1), lines), "{options:?}: {}", ran.out);
        assert_eq!(ran.error.contains("there may be more"), lines < 7, "{options:?}: {}", ran.error);
    }
}

#[test]
fn good_data_pass_validation() {
    let tool = Tool::new();
    let ran = tool.file("a.ctf", DIGITS).run(&["validate", "a.ctf"]);
    assert_eq!((ran.exit, ran.out.as_str()), (Some(0), ""));
    assert!(ran.error.contains("0 errors, 0 warnings"), "{}", ran.error);
}

/// Many chunks and segments: the findings are in the order of the file, with the right lines, for
/// any number of threads.
#[test]
fn validate_reports_in_the_order_of_the_file() {
    let tool = Tool::new();
    let (mut text, mut wrong) = (String::new(), Vec::new());
    for line in 1..=200_000 {
        if line % 9973 == 0 || line == 17 {
            wrong.push(line);
            text += "|x 1 b 3 |y 1:1\n";
        } else {
            let _ = writeln!(text, "|x {line} 2 3 |y 1:1");
        }
    }
    let small = CONFIGURATION.replace("input", "chunkSizeInBytes = 700000 ; input");
    tool.file("a.ctf", &text).file("a.cntk", &small);
    let one = tool.run(&["validate", "a.cntk", "--threads", "1", "--format", "ndjson"]);
    let four = tool.run(&["validate", "a.cntk", "--threads", "4", "--format", "ndjson"]);
    let findings = |ran: &Ran| {
        let lines = ran.out.lines().filter(|line| !line.contains("\"seconds\""));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(findings(&one), findings(&four));
    let lines = one.lines();
    let places =
        lines.iter().filter(|line| line["message"].as_str().is_some_and(|text| text.contains("'b'")));
    let seen: Vec<_> = places.map(|line| line["line"].as_u64().expect("a line")).collect();
    assert_eq!(seen, wrong);
}

#[test]
fn validate_compares_deserializers_by_key() {
    let tool = Tool::new();
    let two = configuration(&[
        ("a.ctf", r#"x = [ dim = 1 ; format = "dense" ]"#),
        ("b.ctf", r#"y = [ dim = 2 ; format = "dense" ]"#),
    ]);
    tool.file("a.ctf", "1 |x 1\n2 |x 1\n3 |x 1\n3 |x 2\n").file("b.ctf", "3 |y 1 2\n5 |y 1 2\n1 |y 1 2\n");
    let ran = tool.file("a.cntk", &two).run(&["validate", "a.cntk", "--format", "ndjson"]);
    let lines = ran.lines();
    let found: Vec<_> = lines[..lines.len() - 1]
        .iter()
        .map(|line| ["severity", "file", "key"].map(|member| line[member].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(found, [["warning", "a.ctf", "2"], ["note", "b.ctf", "3"], ["warning", "b.ctf", "5"]]);
    assert_eq!(ran.exit, Some(1));
}

/// Words with one label per sequence: every length differs, which is legal.
#[test]
fn many_lengths_that_differ_are_counted() {
    let tool = Tool::new();
    let two = configuration(&[
        ("a.ctf", r#"w = [ dim = 9 ; format = "sparse" ]"#),
        ("b.ctf", r#"l = [ dim = 2 ; format = "sparse" ]"#),
    ]);
    let words: String = (0..100).map(|key| format!("{key} |w 0:1\n{key} |w 2:1\n")).collect();
    let labels: String = (0..100).map(|key| format!("{key} |l {}:1\n", key % 2)).collect();
    let ran =
        tool.file("a.cntk", &two).file("a.ctf", &words).file("b.ctf", &labels).run(&["validate", "a.cntk"]);
    assert_eq!((ran.exit, ran.out.lines().count()), (Some(0), 11), "{}", ran.out);
    assert!(ran.out.contains("note: 90 more sequences have different numbers of samples"), "{}", ran.out);
}

/// A wrong name is an error in every sequence: the first message lists the names in the file.
#[test]
fn validate_explains_a_name_that_the_file_does_not_have() {
    let tool = Tool::new();
    let ran = tool
        .file("a.ctf", "1 |X 1 2 3 |y 3:1\n2 |X 1 2 3 |y 3:1\n")
        .file("a.cntk", CONFIGURATION)
        .run(&["validate", "a.cntk"]);
    let lines: Vec<_> = ran.out.lines().filter(|line| line.contains(":x:")).collect();
    let (first, second) = (lines[0], lines[1]);
    assert!(first.contains("no samples named '|x'. Its names are 'X', 'y'. Did you mean 'X'?"), "{first}");
    assert!(second.ends_with("the stream 'x'. Each stream needs a sample in each sequence."), "{second}");
}

#[test]
fn validate_reports_a_file_that_is_missing() {
    let tool = Tool::new();
    let ran = tool.file("a.cntk", CONFIGURATION).run(&["validate", "a.cntk"]);
    assert_eq!(ran.exit, Some(3), "{}", ran.out);
    assert!(
        ran.out.starts_with("a.ctf::::: error: Opening failed for 'a.ctf': No such file or directory."),
        "{}",
        ran.out
    );
    // CNTK's message has no full stop.
    let ran = tool.file("a.ctf", "").run(&["validate", "a.cntk"]);
    assert!(ran.out.contains("Input file is empty. Lines of samples were expected."), "{}", ran.out);
}

#[test]
fn head_shows_the_first_sequences() {
    let tool = Tool::new();
    tool.file("a.ctf", "7 |x 1 2 |y 3:1\n7 |x 3 4 |y 1:0.5 2:2\n9 |x 5 0.1 |y 0:1\n");
    let ran = tool.run(&["head", "a.ctf"]);
    assert_eq!((ran.exit, ran.error.as_str()), (Some(0), ""));
    let y = json!([{"indices": [3], "values": [1.0]}, {"indices": [1, 2], "values": [0.5, 2.0]}]);
    let expected = json!({"number": 0, "key": "7", "streams": {"x": [[1.0, 2.0], [3.0, 4.0]], "y": y}});
    assert_eq!(ran.lines()[0], expected);
    // Values have no more digits than single precision needs.
    assert!(ran.out.contains("[[5.0,0.1]]"), "{}", ran.out);
    assert_eq!(tool.run(&["head", "a.ctf", "-n", "1"]).lines().len(), 1);
    let by_key = tool.run(&["head", "a.ctf", "--key", "9", "--key", "7"]);
    assert_eq!(by_key.lines().iter().map(|line| line["number"].clone()).collect::<Vec<_>>(), [1, 0]);
    let table = tool.run(&["head", "a.ctf", "-n", "1", "--format", "table"]);
    let expected =
        "sequence 0  key 7\n  x  2 samples of 2, dense: 1 2 | 3 4\n  y  2 samples, sparse: 3:1 | 1:0.5 2:2\n";
    assert_eq!(table.out, expected);
    let unknown = tool.run(&["head", "a.ctf", "--key", "8"]);
    assert_eq!(unknown.exit, Some(1));
    assert!(unknown.error.contains("There is no sequence with the key '8'"), "{}", unknown.error);
}

#[test]
fn sample_draws_the_same_sequences_for_the_same_seed() {
    let tool = Tool::new();
    let text: String = (0..1000).map(|line| format!("|x {line}\n")).collect();
    tool.file("a.ctf", &text);
    let draw = |seed| tool.run(&["sample", "a.ctf", "-n", "20", "--seed", seed]).out;
    assert_eq!(draw("3"), draw("3"));
    assert_ne!(draw("3"), draw("4"));
    let all = tool.run(&["sample", "a.ctf", "-n", "5000"]).lines();
    assert!(all.iter().map(|line| line["number"].as_u64()).eq((0..1000).map(Some)));
}

#[test]
fn sequences_become_arrays_for_numpy() {
    let tool = Tool::new();
    tool.file("a.ctf", "7 |x 1 2 |y 3:1\n7 |x 3 4 |y 1:0.5 2:2\n9 |x 5 6 |y 0:1\n");
    let ran = tool.run(&["head", "a.ctf", "--npy", "out"]);
    assert_eq!((ran.exit, ran.out.as_str()), (Some(0), ""), "{}", ran.error);
    let read = |name: &str| std::fs::read(tool.path().join("out").join(name)).expect("an array");
    let x = read("x.npy");
    assert!(x.starts_with(b"\x93NUMPY\x01\x00") && (x.len() - 6 * 4).is_multiple_of(64));
    let header = String::from_utf8_lossy(&x[10..x.len() - 6 * 4]).into_owned();
    assert_eq!(header.trim_end(), "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2,), }");
    assert!(header.ends_with('\n'));
    let values = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(f32::to_le_bytes).concat();
    assert!(x.ends_with(&values));
    assert!(read("y.indptr.npy").ends_with(&[0i64, 1, 3, 4].map(i64::to_le_bytes).concat()));
    assert!(read("y.offsets.npy").ends_with(&[0i64, 2, 3].map(i64::to_le_bytes).concat()));
    assert_eq!(read("keys.txt"), b"7\n9\n");
}

#[test]
fn exit_codes_say_what_is_wrong() {
    let tool = Tool::new();
    tool.file("table.csv", "1,2,3\n4,5,6\n").file("broken.cntk", "deserializers = ( [ type = \"x\"");
    tool.file("a.ctf", DIGITS);
    for (arguments, exit, text) in [
        (&["info", "nothing.ctf"][..], 3, "nothing.ctf"),
        (&["validate", "table.csv"], 1, "CSV"),
        (&["info", "broken.cntk"], 2, "no closing"),
        (&["info"], 2, "Usage"),
        (&["info", "a.ctf", "--format", "xml"], 2, "possible values"),
        (&["no-such-command"], 2, "Usage"),
    ] {
        let ran = tool.run(arguments);
        assert_eq!((ran.exit, ran.out.as_str()), (Some(exit), ""), "{arguments:?}: {}", ran.error);
        assert!(ran.error.contains(text), "{arguments:?}: {}", ran.error);
    }
}

#[test]
fn a_closed_pipe_ends_the_tool_quietly() {
    let tool = Tool::new();
    tool.file("a.ctf", &DIGITS.repeat(50_000));
    let mut command = tool.command(&["head", "a.ctf", "-n", "150000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
    assert!(first.starts_with("{\"number\":0"), "{first}");
    let mut error = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut error).expect("text");
    assert_eq!((child.wait().expect("it ends").code(), error.as_str()), (Some(0), ""));
}

#[test]
fn a_pipe_gets_no_colors() {
    let tool = Tool::new();
    tool.file("a.ctf", DAMAGED);
    for arguments in [&["info", "a.ctf"][..], &["validate", "a.ctf"], &["head", "a.ctf", "--format", "table"]]
    {
        let ran = tool.run(arguments);
        assert!(!ran.out.contains('\x1b') && !ran.error.contains('\x1b'), "{arguments:?}");
    }
}
