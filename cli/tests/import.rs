//! Files of other formats: `convert`, `info` and `head`.

#[allow(dead_code, reason = "not every test program needs every helper")]
mod common;

use common::run;
use serde_json::{Value, json};
use std::path::Path;

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a folder"));
        files.iter().for_each(|(name, content)| folder.write(name, content));
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("writing");
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).expect("reading")
    }

    /// Converts a file to text, and returns the text and the messages.
    #[track_caller]
    fn text(&self, input: &str, options: &[&str]) -> (String, String) {
        let arguments = [&["convert", input, "out.ctf"], options].concat();
        let (code, out, errors) = run(self.path(), &arguments);
        assert!(code == 0 && out.contains("verified"), "{input} {options:?}: {out}{errors}");
        (self.read("out.ctf").replace('\t', " "), errors)
    }

    /// Runs the tool, and returns JSON.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let (code, out, errors) = run(self.path(), &[&["-q", "--format", "json"], arguments].concat());
        assert_eq!((code, errors.as_str()), (0, ""), "{arguments:?}");
        serde_json::from_str(&out).expect("JSON")
    }

    /// Runs the tool, and checks its exit code and parts of its message.
    #[track_caller]
    fn fails(&self, arguments: &[&str], code: i32, parts: &[&str]) {
        let (found, out, errors) = run(self.path(), arguments);
        for part in parts {
            assert!(errors.contains(part), "{arguments:?}: no '{part}' in: {errors}");
        }
        assert_eq!((found, out.as_str()), (code, ""), "{arguments:?}: {errors}");
        assert!(!self.path().join("out.ctf").exists(), "{arguments:?}");
    }
}

const IRIS: &str = "length,width,species\n5.1,3.5,setosa\n7,3.2,virginica\n0.1,-1e-7,\"a, \"\"b\"\"\"\n";

#[test]
fn a_table_becomes_features_and_categories() {
    let folder = Folder::with(&[("iris.csv", IRIS)]);
    let (text, errors) = folder.text("iris.csv", &[]);
    assert_eq!(
        text,
        "0 |features 5.1 3.5 |species 1:1\n1 |features 7 3.2 |species 2:1\n2 |features 0.1 -1e-7 |species 0:1\n"
    );
    for part in [
        "iris.csv is a table with commas",
        "3 records:\n",
        "features  dense, 2 values (columns length .. width)",
        "species   sparse, 3 categories: a, \"b\", setosa, virginica",
    ] {
        assert!(errors.contains(part), "no '{part}' in {errors}");
    }
    let description: Value = serde_json::from_str(&folder.read("out.ctf.streams.json")).expect("JSON");
    assert_eq!(description["streams"][1]["categories"], json!(["a, \"b\"", "setosa", "virginica"]));
    let info = folder.json(&["info", "iris.csv"]);
    assert_eq!((&info["records"], &info["streams"][0]["dim"]), (&json!(3), &json!(2)));
    let (code, out, _) = run(folder.path(), &["info", "iris.csv"]);
    assert!(code == 0 && out.contains("3 records") && out.contains("sparse, 3 categories"), "{out}");
    let head = folder.json(&["head", "iris.csv", "-n", "2"]);
    assert_eq!(head["sequences"][1]["streams"]["species"], json!([{ "indices": [2], "values": [1.0] }]));
    // All of the output formats have the same data.
    let digest = |output: &str| folder.json(&["convert", "iris.csv", output])["digest"].clone();
    assert_eq!(digest("a.cbf"), digest("a.ctf"));
    assert_eq!(digest("a.npz"), digest("a.ctf.zst"));
}

#[test]
fn spellings_of_tables_are_understood() {
    let folder = Folder::with(&[]);
    let expected = "0 |features 1 2 |z 0:1\n1 |features 3 4.5 |z 1:1\n";
    for (name, content, options) in [
        ("a.csv", "\u{feff}x,w,z\r\n1,2,a\r\n3,4.5,b\r\n", &[][..]),
        ("a.csv", "x;w;z\n1;2;a\n\n3;4.5;b", &[]),
        ("a.tsv", "x\tw\tz\n1\t 2\ta \n3\t4.5\tb\n", &[]),
        ("a.txt", "x\tw\tz\n1\t2\ta\n3\t4.5\tb\n", &[]),
        ("a.csv", "x:w:z\n1:2:a\n3:4.5:b\n", &["--delimiter", ":"]),
        ("a.csv", "\"x\",\"w\",\"z\"\n\"1\",\"2\",\"a\"\n\"3\",\"4.5\",\"b\"\n", &[]),
        ("a.dat", "1 2 a\n3  4.5   b\n", &["--from", "blanks", "--columns", "x,w,z"]),
        ("a.csv", "1,2,a\n3,4.5,b\n", &["--no-header", "--columns", "x,w,z"]),
    ] {
        folder.write(name, content);
        assert_eq!(folder.text(name, options).0, expected, "{content:?}");
    }
    folder.write("a.csv", "1,2\n3,4\n");
    let (text, errors) = folder.text("a.csv", &[]);
    assert_eq!(text, "0 |features 1 2\n1 |features 3 4\n");
    assert!(errors.contains("columns are named c1, c2") && errors.contains("--header"), "{errors}");
    assert_eq!(folder.text("a.csv", &["--header"]).0, "0 |features 3 4\n");
    folder.write("a.csv", "a\nb\nb\n");
    assert_eq!(folder.text("a.csv", &["--no-header"]).0, "0 |c1 0:1\n1 |c1 1:1\n2 |c1 1:1\n");
}

#[test]
fn labels_are_classes_or_categories() {
    let folder = Folder::with(&[]);
    for (labels, expected) in [
        (["0", "2"], ["|label 0:1", "|label 2:1"]),
        (["-1", "1"], ["|label 0:1", "|label 1:1"]),
        (["9", "10"], ["|label 9:1", "|label 10:1"]),
        (["0.5", "2"], ["|label 0.5", "|label 2"]),
        (["no", "yes"], ["|label 0:1", "|label 1:1"]),
    ] {
        folder.write("a.csv", format!("label,x\n{},1\n{},2\n", labels[0], labels[1]));
        let (text, _) = folder.text("a.csv", &[]);
        let lines: Vec<_> =
            text.lines().map(|line| line[2..].replace(" |x 1", "").replace(" |x 2", "")).collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn options_describe_streams() {
    let folder = Folder::with(&[("a.csv", "id,a,b,c,d\nu,1,2,3,7\nu,4,5,6,8\nv,7,8,255,9\n")]);
    let (text, _) = folder.text(
        "a.csv",
        &[
            "--stream",
            "x=b..c,#2:uint8",
            "--stream",
            "y=d:index=20",
            "--stream",
            "z=a:category",
            "--number-ids",
        ],
    );
    assert_eq!(text, "0 |x 2 3 1 |y 7:1 |z 0:1\n1 |x 5 6 4 |y 8:1 |z 1:1\n2 |x 8 255 7 |y 9:1 |z 2:1\n");
    assert!(folder.read("out.ctf.streams.json").contains("\"uint8\""));
    let (text, errors) = folder.text("a.csv", &["--key-column", "id", "--stream", "x=a,b"]);
    assert_eq!(text, "u |x 1 2\nu |x 4 5\nv |x 7 8\n");
    assert!(errors.contains("3 records, 2 sequences"), "{errors}");
    assert_eq!(folder.text("a.csv", &["--stream", "id"]).0, "0 |id 0:1\n1 |id 0:1\n2 |id 1:1\n");
    assert_eq!(folder.text("a.csv", &["--stream", "features:float64"]).0.lines().count(), 3);
}

#[test]
fn missing_numbers_are_errors_or_replaced() {
    let folder = Folder::with(&[("a.csv", "a,b,c\n1,2,x\n,NA,\n3,nan,y\n")]);
    folder.fails(
        &["convert", "a.csv", "out.ctf"],
        1,
        &["The column 'a' has no number in line 3", "--missing 0", "a.csv"],
    );
    let (text, errors) = folder.text("a.csv", &["--missing", "-1"]);
    assert_eq!(text, "0 |features 1 2 |c 0:1\n1 |features -1 -1 |c \n2 |features 3 -1 |c 1:1\n");
    assert!(errors.contains("2 missing"), "{errors}");
    assert_eq!(folder.json(&["info", "a.csv"])["streams"][0]["missing"], 2);
}

#[test]
fn another_file_gets_the_same_categories() {
    let folder = Folder::with(&[("train.csv", IRIS), ("test.csv", "species,length,width\nvirginica,1,2\n")]);
    folder.text("train.csv", &[]);
    std::fs::rename(folder.path().join("out.ctf.streams.json"), folder.path().join("train.json"))
        .expect("renaming");
    std::fs::remove_file(folder.path().join("out.ctf")).expect("removing");
    let like = &["--like", "train.json"];
    assert_eq!(folder.text("test.csv", like).0, "0 |features 1 2 |species 2:1\n");
    let (text, _) = folder.text("test.csv", &["--like", "train.json", "--stream", "species"]);
    assert_eq!(text, "0 |species 2:1\n");
    std::fs::remove_file(folder.path().join("out.ctf")).expect("removing");
    folder.write("test.csv", "length,width,species\n1,2,setosa\n1,2,virginicas\n");
    let convert = ["convert", "test.csv", "out.ctf", "--like", "train.json"];
    folder.fails(
        &convert,
        1,
        &["The column 'species' has 'virginicas'", "Did you mean 'virginica'?", "line 3"],
    );
    folder.write("test.csv", "length,width\n1,2\n");
    folder.fails(&convert, 2, &["There is no column 'species'", "'length', 'width'"]);
    folder.write("train.json", "{}");
    folder.fails(&convert, 1, &["no description of streams", "train.json"]);
}

#[test]
fn json_lines_become_vectors_sequences_and_sparse_samples() {
    let folder = Folder::with(&[(
        "a.jsonl",
        concat!(
            "{\"x\": [1, 2.5], \"ids\": [3, 0], \"words\": [\"b\", \"a\"], \"bag\": {\"u\": 2}, \"m\": [[1, 2]], \"ok\": true}\n",
            "\n",
            "{\"ok\": false, \"x\": [3, 4], \"ids\": [7], \"words\": [\"b\"], \"bag\": {\"v\": 1, \"u\": 0.5}, \"m\": [[3, 4], [5, 6]]}\n"
        ),
    )]);
    let (text, _) = folder.text("a.jsonl", &[]);
    assert_eq!(
        text,
        "0 |x 1 2.5 |ids 3:1 |words 1:1 |bag 0:2 |m 1 2 |ok 1\n0 |ids 0:1 |words 0:1\n\
         1 |x 3 4 |ids 7:1 |words 1:1 |bag 1:1 0:0.5 |m 3 4 |ok 0\n1 |m 5 6\n"
    );
    assert_eq!(folder.text("a.jsonl", &["--stream", "ids:dense"]).0, "0 |ids 3\n0 |ids 0\n1 |ids 7\n");
    std::fs::remove_file(folder.path().join("out.ctf")).expect("removing");
    for (content, parts) in [
        ("{\"x\": 1}\n[1]\n", &["line is an array", "jq -c '.[]'", "line 2"][..]),
        ("{\n\"x\": 1\n}\n", &["ends before its value", "jq -c ."]),
        ("{\"x\": 1}\n{\"x\" 1}\n", &["Column 6 is not JSON", "line 2"]),
        ("{\"x\": {\"y\": {}}}\n", &["'x' has nested objects", "jq"]),
        ("{\"x\": [1]}\n{\"x\": 1}\n", &["'x' is left out", "several shapes", "(line 2)"]),
        ("{\"x\": [1, 2]}\n{\"x\": []}\n", &["'x' has no elements", "line 2"]),
    ] {
        folder.write("b.jsonl", content);
        folder.fails(&["convert", "b.jsonl", "out.ctf"], 1, parts);
    }
}

#[test]
fn libsvm_indices_begin_at_1_or_0() {
    let folder = Folder::with(&[("a.svm", "-1 1:0.5 3:2 # a\n+1 2:1\n"), ("b.txt", "2 0:1\n0 5:1e2\n")]);
    let (text, errors) = folder.text("a.svm", &[]);
    assert_eq!(text, "0 |label 0:1 |features 0:0.5 2:2\n1 |label 1:1 |features 1:1\n");
    assert!(errors.contains("indices from 1, dimension 3"), "{errors}");
    assert_eq!(folder.text("b.txt", &[]).0, "0 |label 2:1 |features 0:1\n1 |label 0:1 |features 5:100\n");
    let options = &["--first-index", "0", "--stream", "features:index=10"];
    assert_eq!(folder.text("a.svm", options).0, "0 |features 1:0.5 3:2\n1 |features 2:1\n");
    folder.write("c.svm", "1 qid:4 1:1\n0 qid:4 2:1\n1 qid:5 1:2\n");
    assert_eq!(
        folder.text("c.svm", &[]).0,
        "4 |label 1:1 |features 0:1\n4 |label 0:1 |features 1:1\n5 |label 1:1 |features 0:2\n"
    );
    folder.write("d.svm", "1,3 1:1\n2 2:1\n");
    assert_eq!(folder.text("d.svm", &[]).0, "0 |label 1:1 3:1 |features 0:1\n1 |label 2:1 |features 1:1\n");
    std::fs::remove_file(folder.path().join("out.ctf")).expect("removing");
    folder.write("e.svm", "1 1:1\n1 2:x\n");
    folder.fails(&["convert", "e.svm", "out.ctf"], 1, &["Column 3 has '2:x'", "'index:value'", "line 2"]);
}

#[test]
fn vowpal_wabbit_namespaces_are_streams() {
    let text = "1 2.0 'first|user age:30 vip |item:2 red price:1.5\n-1 second|user vip\n-1 |item blue\n";
    let folder = Folder::with(&[("a.vw", text)]);
    let (text, errors) = folder.text("a.vw", &["--missing", "1"]);
    assert_eq!(
        text,
        "0 |label 1:1 |importance 2 |user 0:30 1:1 |item 2:2 1:3\n1 |label 0:1 |importance 1 |user 1:1 |item \n\
         2 |label 0:1 |importance 1 |user  |item 0:1\n"
    );
    assert!(errors.contains("'tag' is left out"), "{errors}");
    let description: Value = serde_json::from_str(&folder.read("out.ctf.streams.json")).expect("JSON");
    assert_eq!(description["streams"][3]["categories"], json!(["blue", "price", "red"]));
    std::fs::remove_file(folder.path().join("out.ctf")).expect("removing");
    folder.write("b.vw", "1 |a x:1\n1 |a x:y\n");
    folder.fails(&["convert", "b.vw", "out.ctf"], 1, &["Column 6 has 'x:y'", "'feature:number'", "line 2"]);
}

#[test]
fn sentences_are_sequences() {
    let text = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n# NN B-NP O\n";
    let folder = Folder::with(&[("a.conll", text)]);
    let (text, errors) = folder.text("a.conll", &[]);
    assert_eq!(
        text,
        "0 |word 1:1 |pos 1:1 |chunk 0:1 |ner 0:1\n0 |word 2:1 |pos 2:1 |chunk 1:1 |ner 1:1\n\
         1 |word 0:1 |pos 0:1 |chunk 0:1 |ner 1:1\n"
    );
    assert!(errors.contains("2 records"), "{errors}");
    let universal = "# text = Vámonos\n1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_\n\
                     1\tVamos\tir\tVERB\t_\t_\t0\troot\t_\t_\n2\tnos\tnos\tPRON\t_\t_\t1\tobj\t_\t_\n\n";
    folder.write("b.conllu", universal);
    let (text, _) = folder.text("b.conllu", &["--stream", "form", "--stream", "upos"]);
    assert_eq!(text, "0 |form 0:1 |upos 1:1\n0 |form 1:1 |upos 0:1\n");
    std::fs::remove_file(folder.path().join("out.ctf")).expect("removing");
    folder.write("c.conll", "a B\nb\n");
    folder.fails(&["convert", "c.conll", "out.ctf"], 1, &["number of columns is 1. Expected 2", "line 2"]);
}

#[test]
fn mistakes_name_the_place_and_the_remedy() {
    let folder = Folder::with(&[("a.csv", "a,b\n1,2\n3\n"), ("b.csv", "a,b\n1,x\n"), ("a.ctf", "|x 1\n")]);
    folder.write("latin.csv", b"a,b\n1,\xe9\n");
    let mut rows = "a,b\n".to_owned();
    (0..20).for_each(|row| rows += &format!("{row}.5,{row}\n"));
    folder.write("strays.csv", rows + "oops,1\n");
    for (arguments, code, parts) in [
        (&["a.csv"][..], 1, &["number of fields is 1. Expected 2", "line 3"][..]),
        (&["b.csv", "--stream", "x=a,c"], 2, &["no column 'c'", "'a', 'b'"]),
        (&["b.csv", "--stream", "aa"], 2, &["no stream or column 'aa'"]),
        (&["b.csv", "--stream", "x=a..b"], 1, &["The column 'b'", "it has 'x'; expected a number", "line 2"]),
        (&["b.csv", "--stream", "b:densee"], 2, &["Did you mean ':dense'?"]),
        (&["b.csv", "--stream", "a", "--stream", "a=b"], 2, &["'a' is described twice"]),
        (&["b.csv", "--columns", "x"], 2, &["names 1 columns, but rows have 2"]),
        (&["b.csv", "--key-column", "k"], 2, &["no column 'k'"]),
        (&["b.csv", "--stream", "a:index=1"], 2, &["needs the dimension 2, not 1"]),
        (&["b.csv", "--one-hot", "a=3"], 2, &["--stream NAME:index=CLASSES"]),
        (&["latin.csv"], 1, &["Byte 1 of the text is not UTF-8", "iconv", "line 2"]),
        (&["strays.csv", "--stream", "x=a:dense"], 1, &["it has 'oops'", "line 22"]),
        (&["a.ctf", "--delimiter", ";"], 2, &["--delimiter", "the input is none of these"]),
    ] {
        folder.fails(&[&["convert"], &arguments[..1], &["out.ctf"], &arguments[1..]].concat(), code, parts);
    }
    folder.fails(&["info", "a.csv", "b.csv", "--delimiter", ";"], 2, &["the input is none of these"]);
    folder.fails(&["info", "b.csv", "--config"], 2, &["Convert the file first"]);
    folder.fails(&["head", "b.csv", "--key", "1"], 2, &["Convert the file first"]);
}

#[test]
fn a_few_texts_among_numbers_are_errors_unless_the_type_is_chosen() {
    let folder = Folder::with(&[]);
    let mut rows = "a,b,z\n".to_owned();
    (0..18).for_each(|row| rows += &format!("{row}.5,{row},u\n"));
    folder.write("one.csv", format!("{rows}oops,1,v\n"));
    folder.write("two.csv", format!("{rows}x1,1,v\nx2,1,v\n"));
    folder.write("three.csv", format!("{rows}x1,1,v\nx2,1,v\nx3,1,v\n"));
    folder.write("missing.csv", format!("{rows}NA,1,v\n"));
    folder.write(
        "a.jsonl",
        (0..20).map(|row| format!("{{\"a\": {row}}}\n")).collect::<String>() + "{\"a\": \"x\"}\n",
    );
    let remedies = ["Correct the file", "NA", "--missing NUMBER", "--stream a:category"];
    for (arguments, parts) in [
        (&["one.csv"][..], &["The column 'a' has the text 'oops' among 18 numbers", "one.csv, line 20"][..]),
        (&["one.csv", "--stream", "a"], &["has the text 'oops'", "line 20"]),
        (
            &["one.csv", "--missing", "0"],
            &["--missing replaces only empty fields, NA, N/A, NaN and null, not 'oops'"],
        ),
        (&["two.csv"], &["The column 'a' has 2 texts among 18 numbers, the first is 'x1'", "line 20"]),
        (&["missing.csv", "--no-header"], &["'a' among 18 numbers", "line 1", "leave out --no-header"]),
        (&["a.jsonl"], &["The column 'a' has the text 'x' among 20 numbers", "line 21"]),
    ] {
        let parts = match arguments.contains(&"--no-header") {
            true => parts.to_vec(),
            false => [parts, &remedies].concat(),
        };
        folder.fails(
            &[&["-q", "convert"], &arguments[..1], &["out.ctf"], &arguments[1..]].concat(),
            1,
            &parts,
        );
    }
    folder.fails(&["info", "one.csv"], 1, &["has the text 'oops'"]);
    let (text, _) = folder.text("one.csv", &["--stream", "a:category", "--stream", "features=b"]);
    assert!(text.starts_with("0 |a 0:1 |features 0\n"), "{text}");
    assert!(folder.text("one.csv", &["--stream", "b", "--stream", "z"]).0.starts_with("0 |b 0 |z 0:1\n"));
    assert_eq!(
        folder.text("missing.csv", &["--missing", "7"]).0.lines().last(),
        Some("18 |features 7 1 |z 1:1")
    );
    // With more texts they are the names of categories.
    assert!(folder.text("three.csv", &[]).1.contains("a  sparse, 21 categories"));
}

#[test]
fn a_column_of_names_in_front_of_years_is_no_column_of_numbers() {
    let names = "id,2019,2020\n".to_owned();
    let rows: String = (0..20).map(|row| format!("{row},1,2\n")).collect();
    let folder = Folder::with(&[("a.csv", &(names + &rows))]);
    folder.fails(&["convert", "a.csv", "out.ctf"], 1, &["'id' among 20 numbers", "line 1", "give --header"]);
    assert_eq!(folder.text("a.csv", &["--header"]).0.lines().count(), 20);
}

#[test]
fn values_that_mostly_differ_are_no_categories() {
    let folder = Folder::with(&[]);
    for (rows, different, is_category) in
        [(50, 50, true), (51, 51, false), (500, 500, false), (500, 250, true), (500, 251, false)]
    {
        let mut table = "x,name,target\n".to_owned();
        (0..rows).for_each(|row| {
            let value = row % different;
            table += &format!("{}.5,n{value},{}\n", row % 9, 5000 + value * 3);
        });
        folder.write("a.csv", table);
        let info = folder.json(&["info", "a.csv"]);
        let streams = info["streams"].as_array().expect("streams");
        let kind = |name: &str| {
            streams.iter().find(|stream| stream["name"] == name).map(|stream| stream["type"].clone())
        };
        let case = format!("{different} different ones in {rows}: {info}");
        assert_eq!(kind("name"), is_category.then(|| json!("category")), "{case}");
        let note = format!(
            "The column 'name' is left out: {different} of its {rows} texts differ. --stream name:category"
        );
        assert_eq!(info["notes"].to_string().contains(&note), !is_category, "{case}");
        // Numbers that mostly differ stay numbers.
        assert_eq!(kind("target"), Some(json!(if is_category { "category" } else { "dense" })), "{case}");
    }
}

#[test]
fn a_table_that_is_not_split_is_an_error() {
    let folder = Folder::with(&[
        ("a.ctf", "0 |x 1 2 |y 0:1\n1 |x 3 4 |y 1:1\n"),
        ("lines.ctf", "|x 1 2 |y 0:1\n|x 3 4 |y 1:1\n"),
        ("a.vw", "1 |a x:1\n-1 |a y\n"),
        ("a.csv", "x;w;z\n1;2;\"a;\nb\"\n3;4,5;b\n"),
        ("a.tsv", "x\tw\n1\t2\n"),
        ("blanks.txt", "1 2\n3 4\n"),
        ("texts.csv", "text\n\"a, b\"\nc\nc\n"),
    ]);
    for (arguments, parts) in [
        (
            &["a.ctf", "--from", "csv"][..],
            &["it is a text file in CNTK's format (CTF)", "Leave out --from"][..],
        ),
        (&["lines.ctf", "--from", "csv"], &["it is a text file in CNTK's format (CTF)", "lines.ctf"]),
        (&["a.ctf", "--from", "blanks"], &["it is a text file in CNTK's format (CTF)"]),
        (&["a.vw", "--from", "csv"], &["Vowpal Wabbit", "Leave out --from"]),
        (&["a.csv", "--delimiter", ","], &["each of its rows has 2 semicolons", "--delimiter ';'", "a.csv"]),
        (&["a.csv", "--from", "tsv"], &["each of its rows has 2 semicolons", "split at tabs"]),
        (&["a.tsv", "--delimiter", ","], &["each of its rows has one of the tabs", "--delimiter tab"]),
        (&["blanks.txt", "--from", "csv"], &["each of its rows has one of the blanks", "--delimiter blanks"]),
    ] {
        folder.fails(&[&["convert"], &arguments[..1], &["out.ctf"], &arguments[1..]].concat(), 1, parts);
    }
    let one = &["--delimiter", ",", "--no-header", "--stream", "c1:category"];
    assert_eq!(folder.text("a.tsv", one).0, "0 |c1 1:1\n1 |c1 0:1\n");
    assert_eq!(folder.text("texts.csv", &[]).0, "0 |text 0:1\n1 |text 1:1\n2 |text 1:1\n");
}

#[test]
fn keys_that_return_after_others_are_errors() {
    let folder = Folder::with(&[
        ("a.csv", "k,x\nu,1\nv,2\nv,3\nu,4\n"),
        ("good.csv", "k,x\nu,1\nv,2\n"),
        ("a.svm", "1 qid:4 1:1\n0 qid:5 2:1\n1 qid:4 1:2\n"),
    ]);
    let parts = [
        "The key 'u' of the column 'k' returns",
        "line 5",
        "first in line 2",
        "Sort the file",
        "--number-ids",
    ];
    folder.fails(&["convert", "a.csv", "out.ctf", "--key-column", "k"], 1, &parts);
    folder.fails(&["info", "a.csv", "--key-column", "k"], 1, &parts);
    folder.fails(&["convert", "a.svm", "out.ctf"], 1, &["The key '4' of the column 'qid' returns", "line 3"]);
    let numbered = folder.text("a.csv", &["--key-column", "k", "--number-ids"]).0;
    assert_eq!(numbered, "0 |x 1\n1 |x 2\n1 |x 3\n2 |x 4\n");
    // Without an inference, reading the records finds such keys.
    folder.text("good.csv", &["--key-column", "k"]);
    std::fs::rename(folder.path().join("out.ctf.streams.json"), folder.path().join("good.json"))
        .expect("renaming");
    std::fs::remove_file(folder.path().join("out.ctf")).expect("removing");
    folder.fails(&["convert", "a.csv", "out.ctf", "--like", "good.json"], 1, &parts);
}

#[test]
fn columns_that_are_no_features_are_noted() {
    let folder = Folder::with(&[]);
    let mut rows = "row,big,name,label\n".to_owned();
    (0..3000).for_each(|row| rows += &format!("{row},{},name {row},{}\n", 20_000_000 + row * 7, row % 3));
    folder.write("a.csv", rows);
    let info = folder.json(&["info", "a.csv"]);
    let notes = info["notes"].to_string();
    for part in
        ["'row' counts the records", "'big' has whole numbers beyond", "'name' is left out: 3000 of its 3000"]
    {
        assert!(notes.contains(part), "no '{part}' in {notes}");
    }
    assert_eq!(info["streams"].as_array().map(Vec::len), Some(2));
    let info = folder.json(&["info", "a.csv", "--stream", "name"]);
    assert_eq!(info["streams"][0]["categories"], 3000);
    let (_, _, errors) = run(folder.path(), &["head", "a.csv", "-n", "1"]);
    assert!(errors.contains("from the first 1000 records"), "{errors}");
}

#[test]
fn a_folder_of_images_becomes_a_map() {
    let image = "P2\n2 3\n255\n1 2 3 4 5 6\n";
    let folder = Folder::with(&[
        ("images/cat/2.pgm", image),
        ("images/cat/1.pgm", image),
        ("images/dog/more/3.pgm", image),
        ("images/dog/note.txt", ""),
    ]);
    let info = folder.json(&["info", "images"]);
    assert_eq!(info["classes"][0], json!({ "name": "cat", "index": 0, "images": 2 }));
    assert_eq!((&info["others"], &info["sizes"][0]["height"]), (&json!(1), &json!(3)));
    let (_, out, _) = run(folder.path(), &["info", "images/"]);
    assert!(out.contains("3 images, 1 other file") && out.contains("2 x 3"), "{out}");
    let (_, out, _) = run(folder.path(), &["head", "images", "-n", "1"]);
    assert_eq!(out, "{\"class\":\"cat\",\"index\":0,\"path\":\"images/cat/1.pgm\"}\n");
    let (code, _, errors) = run(folder.path(), &["convert", "images", "images.map"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert_eq!(
        folder.read("images.map"),
        "images/cat/1.pgm\t0\nimages/cat/2.pgm\t0\nimages/dog/more/3.pgm\t1\n"
    );
    assert!(folder.read("images.map.streams.json").contains("\"cat\""));
    let (code, out, errors) = run(folder.path(), &["info", "images.map"]);
    assert!(code == 0 && out.contains("3 sequences"), "{out}{errors}");
    folder.write("flat/1.pgm", image);
    folder.fails(&["info", "flat"], 1, &["1 images of the folder 'flat'", "FOLDER/CLASS/IMAGE"]);
    folder.fails(&["convert", "images", "out.ctf"], 2, &["no conversion from images to ctf"]);
}
