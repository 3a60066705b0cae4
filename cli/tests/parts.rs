//! Work in parts, and the merging of their reports.

mod common;

use common::{data, run};
use serde_json::Value;
use std::path::Path;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Runs a command for each part, and writes the reports to NAME-K.json. Returns their names.
fn reports(folder: &Path, name: &str, parts: usize, arguments: &[&str]) -> Vec<String> {
    let one = |number: usize| {
        let part = format!("{number}/{parts}");
        let arguments: Vec<String> =
            arguments.iter().map(|argument| argument.replace('#', &number.to_string())).collect();
        let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
        all.extend(["--part", &part]);
        if !all.contains(&"--format") {
            all.extend(["--format", "json"]);
        }
        let (code, report, errors) = run(folder, &all);
        assert!(code == 0 || name == "bad" && code == 1, "{all:?}: {errors}");
        let report_name = format!("{name}-{number}.json");
        std::fs::write(folder.join(&report_name), report).expect("writing");
        report_name
    };
    (1..=parts).map(one).collect()
}

fn merge(folder: &Path, names: &[String]) -> (i32, String, String) {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    run(folder, &[&["merge", "--format", "json"], &names[..]].concat())
}

#[test]
fn converted_parts_are_together_the_whole() {
    let (folder, _) = data(2000);
    let folder = folder.path();
    let whole = |output: &str| {
        let (code, report, errors) = run(folder, &["convert", "data.cntk", output, "--format", "json"]);
        assert_eq!(code, 0, "{errors}");
        json(&report)
    };
    let text = whole("whole.ctf");
    for (ending, parts) in [("ctf", 1), ("ctf", 5), ("cbf", 3)] {
        let output = format!("part-#.{ending}");
        let mut names = reports(folder, ending, parts, &["convert", "data.cntk", &output]);
        // The order of the reports does not matter.
        names.reverse();
        let (code, report, errors) = merge(folder, &names);
        assert_eq!(code, 0, "{errors}");
        let report = json(&report);
        for member in ["digest", "sequences", "samples", "values", "is_verified"] {
            assert_eq!(report[member], text[member], "{member} of {parts} parts");
        }
        assert_eq!(report["outputs"][0], format!("part-1.{ending}"));
        let files: Vec<String> = (1..=parts).map(|number| format!("part-{number}.{ending}")).collect();
        if ending == "ctf" {
            let read = |name: &String| std::fs::read_to_string(folder.join(name)).expect("text");
            let all: String = files.iter().map(read).collect();
            assert!(all == read(&"whole.ctf".to_owned()), "{parts} parts");
        } else {
            // A list of the files reads like the whole.
            let list = format!(
                "deserializers = ([ type = \"CNTKBinaryFormatDeserializer\" ; module = \"CNTKBinaryReader\" ; file = (\"{}\") ])",
                files.join("\" : \"")
            );
            std::fs::write(folder.join("list.cntk"), list).expect("writing");
            let (code, report, errors) =
                run(folder, &["convert", "list.cntk", "again.cbf", "--format", "json"]);
            assert_eq!(code, 0, "{errors}");
            assert_eq!(json(&report)["digest"], text["digest"]);
        }
    }
    let names = reports(folder, "numbered", 2, &["convert", "data.cntk", "n-#.ctf", "--number-ids"]);
    assert_eq!(merge(folder, &names).0, 0);
    let second = std::fs::read_to_string(folder.join("n-2.ctf")).expect("text");
    assert_eq!(second.lines().last().and_then(|line| line.split('\t').next()), Some("1999"));
}

#[test]
fn missing_doubled_and_foreign_parts_are_errors() {
    let (folder, path) = data(500);
    let folder = folder.path();
    let names = reports(folder, "a", 3, &["convert", "data.cntk", "a-#.cbf"]);
    let fails = |names: &[&String], words: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).clone()).collect();
        let (code, out, errors) = merge(folder, &names);
        assert_eq!((code, out.as_str()), (1, ""), "{errors}");
        assert!(words.iter().all(|word| errors.contains(word)), "{words:?}: {errors}");
    };
    let [first, second, third] = &names[..] else { panic!("three parts") };
    fails(&[first, third], &["Part 2 of 3 is missing. Run the command for it: --part 2/3"]);
    fails(&[second], &["Parts 1, 3 of 3 are missing. Run the command for them: --part 1/3"]);
    fails(&[first, second, third, second], &["Part 2 of 3 is there twice: 'a-2.json' and 'a-2.json'"]);
    let others = reports(folder, "b", 2, &["convert", "data.cntk", "b-#.cbf"]);
    fails(&[first, second, &others[1]], &["are not parts of one whole", "'parts' is", "'b-2.json'"]);
    let of_one = reports(folder, "c", 3, &["convert", "data.cntk", "c-#.cbf", "--stream", "x"]);
    fails(&[first, second, &of_one[2]], &["are not parts of one whole", "'streams' is"]);
    let checked = reports(folder, "v", 3, &["validate", "data.cntk"]);
    fails(&[first, second, &checked[2]], &["are not parts of one whole", "'command' is \"validate\""]);
    // The data grow between two parts.
    let more = std::fs::read_to_string(&path).expect("text") + "|x 1 1 |y 1:1\n";
    std::fs::write(&path, more).expect("writing");
    let grown = reports(folder, "d", 3, &["convert", "data.cntk", "d-#.cbf"]);
    fails(&[first, second, &grown[2]], &["are not parts of one whole", "'total' is 501"]);
    let (_, whole, _) = run(folder, &["convert", "data.cntk", "w.cbf", "--format", "json"]);
    for (name, content, words) in [
        ("whole.json", whole.as_str(), "it is about the whole data"),
        ("text.json", "hello", "it is not JSON"),
        ("empty.json", "", "it is empty"),
        ("other.json", "{}", "it is the report of no such command"),
    ] {
        std::fs::write(folder.join(name), content).expect("writing");
        fails(&[&name.to_owned()], &[words, "is not the report of a part"]);
    }
    assert_eq!(merge(folder, &["no.json".to_owned()]).0, 3);
    for (arguments, words) in [
        (&["convert", "data.ctf", "x.cbf", "--part", "1/2"][..], "cntk-reader info data.ctf --config"),
        (&["validate", "data.ctf", "--part", "1/2"], "cntk-reader info data.ctf --config"),
        (&["convert", "data.cntk", "x.cbf", "--part", "3/2"], "parts are counted from 1 to 2"),
        (&["convert", "data.cntk", "x.cbf", "--part", "1"], "write K/N, such as 1/4"),
    ] {
        let (code, _, errors) = run(folder, arguments);
        assert!(code == 2 && errors.contains(words), "{errors}");
    }
}

#[test]
fn parts_without_sequences_have_a_report_and_no_output() {
    let (folder, _) = data(50);
    let folder = folder.path();
    let (code, whole, errors) = run(folder, &["convert", "data.cntk", "whole.cbf", "--format", "json"]);
    assert_eq!(code, 0, "{errors}");
    for (input, name) in [("data.cntk", "a-#.ctf"), ("data.cntk", "b-#.cbf"), ("whole.cbf", "c-#.npz")] {
        let file = |number: usize| folder.join(name.replace('#', &number.to_string()));
        // An earlier output would be taken for the part's by a pattern.
        (1..=3).for_each(|number| std::fs::write(file(number), "old").expect("writing"));
        let names = reports(folder, "empty", 3, &["convert", input, name]);
        let there: Vec<usize> = (1..=3).filter(|&number| file(number).exists()).collect();
        let [full] = there[..] else { panic!("one part has all: {there:?}") };
        let (code, merged, errors) = merge(folder, &names);
        assert_eq!(code, 0, "{errors}");
        let merged = json(&merged);
        for member in ["digest", "sequences", "samples", "values", "is_verified"] {
            assert_eq!(merged[member], json(&whole)[member], "{member} of {name}");
        }
        assert_eq!(merged["outputs"], serde_json::json!([name.replace('#', &full.to_string())]));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (code, said, _) = run(folder, &[&["merge"], &names[..]].concat());
        assert!(code == 0 && said.starts_with("3 parts, 50 sequences, "), "{said}");
    }
    let (code, said, errors) =
        run(folder, &["convert", "data.cntk", "a.cbf", "--part", "1/3", "--format", "table"]);
    let (_, last, _) = run(folder, &["convert", "data.cntk", "a.cbf", "--part", "3/3", "--format", "table"]);
    assert_eq!(code, 0, "{errors}");
    assert!((said + &last).contains("a.cbf: not written, because part "), "{last}");
    std::fs::create_dir(folder.join("folder.cbf")).expect("a folder");
    let taken = [1, 2, 3].map(|number| {
        run(folder, &["convert", "data.cntk", "folder.cbf", "--part", &format!("{number}/3")]).0
    });
    assert!(!taken.contains(&0), "{taken:?}");
    let names = reports(folder, "checked", 3, &["validate", "data.cntk"]);
    assert_eq!(merge(folder, &names).0, 0);
}

#[test]
fn outputs_of_merged_parts_must_be_whole() {
    let (folder, _) = data(2000);
    let folder = folder.path();
    std::fs::create_dir(folder.join("out")).expect("a folder");
    let names = reports(folder, "out/p", 3, &["convert", "data.cntk", "out/p-#.cbf"]);
    let fails = |words: &[&str]| {
        let (code, out, errors) = merge(folder, &names);
        assert_eq!((code, out.as_str()), (1, ""), "{errors}");
        assert!(words.iter().all(|word| errors.contains(word)), "{words:?}: {errors}");
    };
    assert_eq!(merge(folder, &names).0, 0);
    // Seen from another folder, the outputs are beside their reports.
    let beside: Vec<String> = names.iter().map(|name| name.replace("out/", "")).collect();
    let (code, _, errors) = merge(&folder.join("out"), &beside);
    assert_eq!(code, 0, "{errors}");
    let second = folder.join("out/p-2.cbf");
    let bytes = std::fs::read(&second).expect("reading");
    std::fs::write(&second, &bytes[..bytes.len() - 7]).expect("writing");
    fails(&["'out/p-2.cbf', the output of part 2, has ", "out/p-2.json", "cut off", "--part 2/3"]);
    std::fs::remove_file(&second).expect("removing");
    fails(&["'out/p-2.cbf', the output of part 2, is missing", "out/p-2.json", "--part 2/3"]);
    std::fs::write(&second, &bytes).expect("writing");
    assert_eq!(merge(folder, &names).0, 0);
    // The third part was written over the second one.
    let report = std::fs::read_to_string(folder.join("out/p-3.json")).expect("reading");
    let report = report.replace("out/p-3.cbf", "out/p-2.cbf");
    let size = |name: &str| std::fs::metadata(folder.join(name)).expect("a file").len().to_string();
    let report = report.replace(&size("out/p-3.cbf"), &size("out/p-2.cbf"));
    std::fs::write(folder.join("out/p-3.json"), report).expect("writing");
    fails(&["Parts 2 and 3 have one output, 'out/p-2.cbf'"]);
}

#[test]
fn validated_and_indexed_parts_are_merged() {
    let (folder, path) = data(2000);
    let folder = folder.path();
    let text = std::fs::read_to_string(&path).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(&path, [&lines[..700].join("\n"), "\n|x a 1 |y 1:1\n", &lines[701..].join("\n")].concat())
        .expect("writing");
    let (code, whole, _) = run(folder, &["validate", "data.cntk", "--format", "json"]);
    assert_eq!(code, 1);
    let whole = json(&whole);
    for form in ["json", "ndjson"] {
        let names = reports(folder, "bad", 4, &["validate", "data.cntk", "--format", form]);
        let (code, merged, errors) = merge(folder, &names);
        assert_eq!(code, 1, "{errors}");
        let merged = json(&merged);
        for member in ["errors", "warnings", "findings", "complete"] {
            assert_eq!(merged[member], whole[member], "{member}");
        }
    }
    let names: Vec<&str> = ["bad-1.json", "bad-2.json", "bad-3.json", "bad-4.json"].to_vec();
    let (_, table, _) = run(folder, &[&["merge"], &names[..]].concat());
    assert!(table.contains("data.ctf:701:") && table.contains("in 4 parts."), "{table}");
    for name in ["a.ctf", "b.ctf", "c.ctf"] {
        std::fs::write(folder.join(name), "|x 1 1 |y 1:1\n").expect("writing");
    }
    let list = std::fs::read_to_string(folder.join("data.cntk")).expect("text").replace("data.ctf", "?.ctf");
    std::fs::write(folder.join("list.cntk"), list).expect("writing");
    let names = reports(folder, "index", 2, &["index", "list.cntk"]);
    let (code, merged, errors) = merge(folder, &names);
    assert_eq!(code, 0, "{errors}");
    let merged = json(&merged);
    let files: Vec<&str> = merged["caches"]
        .as_array()
        .expect("caches")
        .iter()
        .filter_map(|cache| cache["file"].as_str()?.rsplit('/').next())
        .collect();
    assert_eq!(files, ["a.ctf", "b.ctf", "c.ctf"]);
    let (code, _, errors) = run(folder, &["index", "list.cntk", "--check"]);
    assert_eq!(code, 0, "{errors}");
}
