//! The commands index, convert, bench, order, completions and man with their output in pipes, as
//! programs call them.

mod common;

use common::{data, run, tool};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn an_index_cache_is_made_once_and_checked() {
    let (folder, path) = data(1000);
    let folder = folder.path();
    assert_eq!(run(folder, &["index", "data.cntk", "--check"]).0, 1);
    let (code, made, _) = run(folder, &["index", "data.cntk", "--format", "json"]);
    let made = json(&made);
    assert_eq!((code, &made["schema"], &made["caches"][0]["is_made"]), (0, &1.into(), &true.into()));
    assert_eq!(made["caches"][0]["sequences"], 1000);
    let cache = folder.join(made["caches"][0]["cache"].as_str().expect("a path"));
    let bytes = std::fs::read(&cache).expect("the cache");
    assert_eq!(run(folder, &["index", "data.cntk", "--check"]).0, 0);
    // A cache that fits is kept, unless `--force` is given.
    let (_, kept, _) = run(folder, &["index", "data.ctf", "--format", "json"]);
    assert_eq!(json(&kept)["caches"][0]["is_made"], false);
    let (_, forced, _) = run(folder, &["index", "data.ctf", "--force", "--format", "json"]);
    assert_eq!(json(&forced)["caches"][0]["is_made"], true);
    assert_eq!(std::fs::read(&cache).expect("the cache"), bytes);
    let mut text = std::fs::read_to_string(&path).expect("the data");
    text.push_str("|x 1 1 |y 0:1\n");
    std::fs::write(&path, text).expect("writing");
    assert_eq!(run(folder, &["index", "data.cntk", "--check"]).0, 1);
    assert_eq!(run(folder, &["index", "data.cntk"]).0, 0);
    // Only text files have index caches.
    run(folder, &["convert", "data.ctf", "data.cbf"]);
    assert_eq!(run(folder, &["index", "data.cbf"]).0, 2);
}

#[test]
fn data_round_trip_through_every_format() {
    let (folder, path) = data(3000);
    let folder = folder.path();
    let mut digests = Vec::new();
    for (input, output) in [
        ("data.ctf", "data.cbf"),
        ("data.cbf", "again.ctf"),
        ("data.cntk", "data.npz"),
        ("data.npz", "arrays.cbf"),
        ("arrays.cbf", "arrays.npz"),
    ] {
        let (code, report, errors) = run(folder, &["convert", input, output, "--format", "json"]);
        assert_eq!((code, errors.as_str()), (0, ""), "{input} to {output}");
        let report = json(&report);
        assert_eq!((&report["sequences"], &report["is_verified"]), (&3000.into(), &true.into()));
        digests.push(report["digest"].clone());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    let (code, line, _) = run(folder, &["convert", "data.ctf", "x.npy", "--stream", "x"]);
    assert!(code == 0 && line.contains("3,000 sequences"), "{line}");
    let size = std::fs::metadata(folder.join("x.npy")).expect("the array").len();
    assert_eq!(size, 128 + 3000 * 8);
    // No temporary files are left beside the outputs.
    assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 8);
    drop(path);
}

#[test]
fn class_arrays_become_sparse_streams() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let described = b"{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}\n";
    let mut array = b"\x93NUMPY\x01\0".to_vec();
    array.extend((described.len() as u16).to_le_bytes());
    array.extend(described);
    array.extend([2_i32, 0, 4].map(i32::to_le_bytes).concat());
    std::fs::write(folder.join("y.npy"), array).expect("writing");
    let convert =
        |option: &str| run(folder, &["convert", "y.npy", "y.ctf", "--stream", "y", "--one-hot", option]);
    let (code, line, errors) = convert("y=5");
    assert!(code == 0 && line.contains("3 sequences") && line.contains("verified"), "{line} {errors}");
    let text = || std::fs::read_to_string(folder.join("y.ctf")).expect("text");
    assert_eq!(text(), "0\t|y 2:1\n1\t|y 0:1\n2\t|y 4:1\n");
    let (_, found, _) = run(folder, &["info", "y.ctf", "--format", "json"]);
    let stream = &json(&found)["deserializers"][0]["streams"][0];
    assert_eq!((&stream["storage"], &stream["dim"]), (&"sparse".into(), &5.into()));
    for (option, code, words) in [
        ("y", 2, "write NAME=CLASSES, such as labels=10"),
        ("y=", 2, "the number of classes must be from 1 to 2147483647"),
        ("y=0", 2, "the number of classes must be from 1 to 2147483647"),
        ("y=2147483648", 2, "the number of classes must be from 1 to 2147483647"),
        ("y=4", 1, "Its number 2 is 4, which must be from 0 to 3"),
        ("z=5", 2, "There is no array 'z'"),
    ] {
        let (found, out, errors) = convert(option);
        assert_eq!((found, out.as_str()), (code, ""), "{option}: {errors}");
        assert!(errors.contains(words), "{option}: {errors}");
    }
    assert_eq!(text(), "0\t|y 2:1\n1\t|y 0:1\n2\t|y 4:1\n", "the earlier file is kept");
    let (code, _, errors) = run(folder, &["convert", "y.ctf", "y.cbf", "--stream", "yy"]);
    assert!(code == 2 && errors.contains("There is no stream 'yy'. The data have 'y'"), "{errors}");
    let (code, _, errors) = run(folder, &["convert", "y.ctf", "y.cbf", "--one-hot", "y=5"]);
    assert!(
        code == 2 && errors.contains("--one-hot is for NumPy arrays, Arrow and Parquet files"),
        "{errors}"
    );
}

#[test]
fn number_ids_replaces_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("a.ctf"), "17 |x 1\n17 |x 2\n5 |x 3\n").expect("writing");
    let text = |options: &[&str]| {
        assert_eq!(run(folder, &[&["convert", "a.ctf", "b.ctf"], options].concat()).0, 0);
        std::fs::read_to_string(folder.join("b.ctf")).expect("text")
    };
    assert_eq!(text(&[]), "17\t|x 1\n17\t|x 2\n5\t|x 3\n");
    assert_eq!(text(&["--number-ids"]), "0\t|x 1\n0\t|x 2\n1\t|x 3\n");
}

#[test]
fn a_failed_conversion_leaves_the_earlier_file() {
    let (folder, path) = data(10);
    let folder = folder.path();
    assert_eq!(run(folder, &["convert", "data.cntk", "data.cbf"]).0, 0);
    let before = std::fs::read(folder.join("data.cbf")).expect("a file");
    std::fs::write(&path, "|x 1 1 |y 1:1\n|x 1 1 |y 9:1\n").expect("writing");
    let (code, out, errors) = run(folder, &["convert", "data.cntk", "data.cbf"]);
    assert_eq!((code, out.as_str()), (1, ""), "{errors}");
    assert!(errors.contains("data.ctf") && errors.contains("line 2"), "{errors}");
    assert_eq!(std::fs::read(folder.join("data.cbf")).expect("a file"), before);
    assert_eq!(run(folder, &["convert", "data.cntk", "data.unknown"]).0, 2);
    assert_eq!(run(folder, &["convert", "missing.ctf", "data.cbf"]).0, 3);
    assert_eq!(run(folder, &["convert", "data.ctf", "missing/data.cbf"]).0, 3);
    assert_eq!(run(folder, &["convert", "data.ctf", "data.ctf"]).0, 2);
}

#[test]
fn outputs_are_compressed_by_their_names() {
    let (folder, path) = data(30_000);
    let folder = folder.path();
    let convert = |input: &str, output: &str, options: &[&str]| {
        let arguments = [&["convert", input, output, "--format", "json"], options].concat();
        let (code, report, errors) = run(folder, &arguments);
        assert_eq!((code, errors.as_str()), (0, ""), "{input} to {output}");
        json(&report)
    };
    // A file that keeps its format is compressed byte for byte.
    let copied = convert("data.ctf", "data.ctf.zst", &[]);
    assert_eq!((&copied["is_verified"], &copied["sequences"]), (&true.into(), &Value::Null));
    let size = |name: &str| std::fs::metadata(folder.join(name)).expect("a file").len();
    assert_eq!(copied["bytes"], size("data.ctf.zst"));
    assert!(size("data.ctf.zst") < size("data.ctf") / 3);
    // A converted file is compressed while it is written.
    let plain = convert("data.ctf", "plain.cbf", &[]);
    let packed = convert("data.ctf.zst", "packed.cbf.zst", &["--compress", "zstd", "--level", "1"]);
    assert_eq!((&plain["digest"], &plain["sequences"]), (&packed["digest"], &30_000.into()));
    let back = convert("packed.cbf.zst", "back.ctf.zst", &[]);
    assert_eq!((&back["digest"], &back["is_verified"]), (&plain["digest"], &true.into()));
    assert_eq!(run(folder, &["head", "data.ctf"]).1, run(folder, &["head", "data.ctf.zst"]).1);
    let (_, found, _) = run(folder, &["info", "packed.cbf.zst", "--format", "json"]);
    assert_eq!(json(&found)["deserializers"][0]["sequences"], 30_000);
    // Readers could not recognize an output without .zst, and NumPy could not read one with it.
    for (output, options) in [
        ("a.ctf", &["--compress", "zstd"][..]),
        ("a.ctf", &["--level", "3"]),
        ("a.npz.zst", &[]),
        ("a.ctf.zst", &["--level", "23"]),
        ("data.ctf", &[]),
    ] {
        assert_eq!(run(folder, &[&["convert", "data.ctf", output], options].concat()).0, 2, "{output}");
    }
    assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 6);
    drop(path);
}

#[test]
fn a_killed_conversion_leaves_nothing_and_can_be_repeated() {
    for (output, options) in
        [("data.npz", &[][..]), ("data.ctf.zst", &["--level", "19"]), ("data.cbf.zst", &["--level", "19"])]
    {
        let (folder, _) = data(60_000);
        let folder = folder.path();
        let whole = [&["convert", "data.ctf", output, "--format", "json"], options].concat();
        assert_eq!(run(folder, &whole).0, 0);
        let expected = std::fs::read(folder.join(output)).expect("a file");
        std::fs::remove_file(folder.join(output)).expect("removing");
        for milliseconds in [1, 20, 50, 100, 150, 200, 300] {
            let mut child = tool(folder, &whole).stdout(Stdio::null()).spawn().expect("the tool runs");
            std::thread::sleep(Duration::from_millis(milliseconds));
            child.kill().expect("killing");
            child.wait().expect("its end");
            // If the kill came late, the output is complete.
            if let Ok(found) = std::fs::read(folder.join(output)) {
                assert!(found == expected, "half a file after {milliseconds} ms");
            }
        }
        assert_eq!(run(folder, &whole).0, 0);
        assert!(std::fs::read(folder.join(output)).expect("a file") == expected);
        assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 3);
    }
}

#[test]
fn the_order_is_listed_compared_and_measured() {
    let (folder, _) = data(2000);
    let folder = folder.path();
    let (code, list, _) = run(folder, &["order", "data.cntk"]);
    let lines: Vec<Value> = list.lines().map(json).collect();
    assert_eq!((code, lines.len(), &lines[0]["schema"]), (0, 2001, &1.into()));
    let mut keys: Vec<u64> =
        lines[1..].iter().filter_map(|line| line["key"].as_str()?.parse().ok()).collect();
    assert_ne!(keys, (0..2000).collect::<Vec<_>>());
    keys.sort_unstable();
    assert_eq!(keys, (0..2000).collect::<Vec<_>>());
    let digest = |more: &[&str]| {
        let arguments = [&["order", "data.cntk", "--digest"], more].concat();
        let (code, text, errors) = run(folder, &arguments);
        assert_eq!(code, 0, "{errors}");
        text
    };
    assert_eq!(digest(&[]), digest(&["--minibatch-size", "7", "--threads", "1"]));
    assert_ne!(digest(&[]), digest(&["--seed", "5"]));
    assert_ne!(digest(&[]), digest(&["--sweep", "1"]));
    assert_ne!(digest(&["--workers", "2", "--rank", "0"]), digest(&["--workers", "2", "--rank", "1"]));
    // A worker without data is warned about, unless -q is given.
    let nothing = ["order", "data.cntk", "--digest", "--workers", "1000", "--rank", "999"];
    let (code, text, errors) = run(folder, &nothing);
    assert!(code == 0 && text.contains("0 sequences"), "{text}");
    assert!(errors.contains("The worker of rank 999 reads nothing: 1,000 workers share"), "{errors}");
    assert_eq!(run(folder, &[&nothing[..], &["-q"]].concat()).2, "");
    // The order after a checkpoint is the rest of the list.
    let (_, rest, _) = run(folder, &["order", "data.cntk", "--at", "1500", "--format", "json"]);
    let rest = json(&rest);
    let of = |lines: &[Value]| lines.iter().map(|line| line["number"].clone()).collect::<Vec<_>>();
    assert_eq!(of(rest["order"].as_array().expect("a list")), of(&lines[1501..]));
    let (_, report, _) = run(folder, &["order", "data.cntk", "--svg", "order.svg", "--format", "json"]);
    let report = json(&report);
    let third = report["displacement"]["mean"].as_f64().expect("a number") / (2000.0 / 3.0);
    assert!((third - 1.0).abs() < 0.2, "{report}");
    let svg = std::fs::read_to_string(folder.join("order.svg")).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.matches("h0").count() == 2000);
    let (_, report, _) =
        run(folder, &["order", "data.cntk", "--no-randomize", "--report", "--format", "json"]);
    assert_eq!(json(&report)["displacement"]["max"], 0);
    assert_eq!(run(folder, &["order", "data.cntk", "--workers", "2", "--rank", "2"]).0, 2);
    let (code, _, said) = run(folder, &["order", "data.cntk", "--workers", "2"]);
    assert!(code == 2 && said.contains("add --rank, from 0 to 1"), "{said}");
}

#[test]
fn every_stage_is_timed() {
    let (folder, _) = data(2000);
    let arguments = ["bench", "data.cntk", "--repetitions", "1", "--threads-list", "1,2", "--format", "json"];
    let (code, report, errors) = run(folder.path(), &arguments);
    assert_eq!(code, 0, "{errors}");
    let report = json(&report);
    let results = report["results"].as_array().expect("results");
    let stages: Vec<_> = results.iter().filter_map(|one| one["stage"].as_str()).collect();
    let all = ["read", "index", "parse", "randomize", "pack", "all"];
    assert_eq!(stages, [all, all].concat());
    assert!(
        results.iter().all(|one| one["samples"] == 2000 && one["samples_per_second"].as_f64() > Some(0.0))
    );
    assert!(report["machine"]["cpus"].as_u64() > Some(0) && report["version"].is_string());
    assert_eq!(run(folder.path(), &["bench", "data.cntk", "--repetitions", "0"]).0, 2);
}

#[test]
fn bench_prints_a_table() {
    let (folder, _) = data(2000);
    let arguments = [
        "bench",
        "data.ctf",
        "--stages",
        "parse,randomize",
        "--repetitions",
        "1",
        "--threads-list",
        "2",
        "--format",
        "table",
    ];
    let (code, table, errors) = run(folder.path(), &arguments);
    assert_eq!(code, 0, "{errors}");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(table.starts_with("data.ctf, version "), "{table}");
    assert_eq!(lines[1], ["stage", "threads", "seconds", "MB/s", "samples/s"]);
    for (line, stage) in lines[2..].iter().zip(["parse", "randomize"]) {
        assert_eq!((line[0], line[1], line.len()), (stage, "2", 5), "{table}");
        let number = |place: usize| line[place].replace(',', "").parse::<f64>().expect("a number");
        // 2,000 samples in the seconds, which are rounded.
        let samples = number(4) * number(2);
        assert!((1_000.0..=3_000.0).contains(&samples) || number(2) < 0.0005, "{table}");
    }
    assert_eq!(lines.len(), 4, "{table}");
    assert_eq!(errors, "", "progress is for terminals");
}

#[test]
fn completions_and_man_pages_of_the_wheel_are_up_to_date() {
    let share = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/cntk_reader.data/data/share");
    let advice = "`cargo xtask share` writes it";
    let folder = tempfile::tempdir().expect("a folder");
    for (shell, path) in [
        ("bash", "bash-completion/completions/cntk-reader"),
        ("zsh", "zsh/site-functions/_cntk-reader"),
        ("fish", "fish/vendor_completions.d/cntk-reader.fish"),
    ] {
        let (code, text, _) = run(folder.path(), &["completions", shell]);
        assert!(code == 0 && text.contains("convert") && text.contains("one-hot"), "{shell}");
        let kept = std::fs::read_to_string(share.join(path)).expect(path);
        assert!(kept == text, "{path} is out of date: {advice}");
    }
    assert_eq!(run(folder.path(), &["man", "pages/man1"]).0, 0);
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
        names.collect::<std::collections::BTreeSet<String>>()
    };
    let (made, kept) = (folder.path().join("pages/man1"), share.join("man/man1"));
    assert_eq!(names(&made), names(&kept), "{advice}");
    for name in names(&made) {
        let page = std::fs::read_to_string(made.join(&name)).expect("a page");
        for section in ["DESCRIPTION", "ENVIRONMENT", "SEE ALSO"] {
            assert!(
                page.contains(&format!(".SH {section}")) || page.contains(&format!(".SH \"{section}\"")),
                "{name}: {section}"
            );
        }
        let kept = std::fs::read_to_string(kept.join(&name)).expect("a page");
        assert!(kept == page, "{name} is out of date: {advice}");
    }
    let page = |name: &str| std::fs::read_to_string(made.join(name)).expect("a page");
    assert!(page("cntk-reader.1").contains("EXIT STATUS"));
    assert!(page("cntk-reader-convert.1").contains("EXAMPLES"));
}
