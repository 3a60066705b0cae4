//! The tool with configurations as found in practice, and with paths that a configuration cannot
//! express.

#[allow(dead_code, reason = "not every test program needs every helper")]
mod common;

use common::run;

const DATA: &str = "|x 1 2 |y 0:1\n|x 3 4 |y 2:1\n";

#[test]
fn readers_of_a_whole_file_are_named_and_chosen() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::write(path.join("train.ctf"), DATA).expect("writing");
    let reader = "reader = { file = \"$Data$/train.ctf\" ; input = { x = { dim = 2 ; format = dense } } }";
    let whole = format!(
        "# Whole.\ncommand = train\nData = \".\"\ntrain = {{ modelPath = \"$Models$/x\"\n{reader} }}\ntest = {{ {reader} }}\n"
    );
    std::fs::write(path.join("whole.cntk"), whole).expect("writing");
    for command in ["info", "validate", "head", "order"] {
        let (code, _, said) = run(path, &[command, "whole.cntk"]);
        assert_eq!(code, 2, "{command}: {said}");
        assert!(said.contains("Its readers are 'test.reader', 'train.reader'."), "{command}: {said}");
        let (code, out, said) = run(path, &[command, "whole.cntk", "--reader", "train.reader"]);
        assert_eq!(code, 0, "{command}: {out}{said}");
        let (code, _, said) = run(path, &[command, "whole.cntk", "--reader", "train.raeder"]);
        assert!(code == 2 && said.contains("Did you mean 'train.reader'?"), "{command}: {said}");
    }
    let (code, _, said) = run(path, &["convert", "whole.cntk", "x.npz", "--reader", "test.reader"]);
    assert_eq!(code, 0, "{said}");
    let (code, _, said) = run(path, &["info", "train.ctf", "--reader", "train.reader"]);
    assert!(code == 2 && said.contains("chooses a reader of a configuration"), "{said}");
    let (code, ..) =
        run(path, &["info", "whole.cntk", "--reader", "train.reader", "--reader", "test.reader"]);
    assert_eq!(code, 2);
}

// Names of other systems have fewer characters.
#[cfg(unix)]
#[test]
fn a_printed_configuration_reads_its_file_whatever_its_name() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    for name in [
        &b"a #b.ctf"[..],
        b"a\"b.ctf",
        b"$a$ $b$.ctf",
        b"a\\b[c]{d}(e),f;g:h.ctf",
        b"'a'\n.ctf",
        b"file:a.ctf",
        b"\xff.ctf",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let file = path.join(OsStr::from_bytes(name));
        std::fs::write(&file, DATA).expect("writing");
        let mut command = common::program();
        let output = command.arg("info").arg(&file).arg("--config").output().expect("it runs");
        assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
        std::fs::write(path.join("printed.cntk"), output.stdout).expect("writing");
        let (code, out, said) = run(path, &["head", "printed.cntk", "--format", "ndjson"]);
        assert_eq!((code, out.lines().count()), (0, 2), "{}: {said}", file.display());
        let printed = std::fs::read_to_string(path.join("printed.cntk")).expect("text");
        let (code, _, said) = run(path, &["validate", "printed.cntk"]);
        assert_eq!(code, 0, "{printed}: {said}");
    }
}

#[test]
fn a_file_that_is_named_as_a_configuration_is_read_as_one() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, said) in [
        ("randomize: false\nfile: x\n", "write '='"),
        ("{ \"file\": \"x\" }\n", "write '='"),
        ("// reader\nfile = \"x\"\n", "A comment begins with '#'"),
    ] {
        std::fs::write(folder.path().join("x.cntk"), text).expect("writing");
        let (code, _, error) = run(folder.path(), &["info", "x.cntk"]);
        assert!(code == 2 && error.contains(said), "{text}: {error}");
    }
}
