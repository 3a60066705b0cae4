//! The scripts of the documentation that work on the parts of a data set.

#![cfg(unix)]

#[allow(dead_code, reason = "not every test program needs every helper")]
mod common;

use common::{data, run};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The tool's page.
const PAGE: &str = include_str!("../../docs/tool.md");

/// Returns a block of the tool's page: the one that begins with this text.
fn block<'a>(page: &'a str, beginning: &str) -> &'a str {
    let fence = format!("```sh\n{beginning}");
    let begin = page.find(&fence).unwrap_or_else(|| panic!("no block {beginning}")) + "```sh\n".len();
    &page[begin..][..page[begin..].find("```").expect("its end")]
}

/// Makes a folder with data for the scripts of the page, and the programs that they call: the tool,
/// and `sbatch`. Returns the folder and the search path.
fn folder_for_scripts() -> (tempfile::TempDir, String) {
    let (folder, _) = data(2000);
    let path = |name: &str| folder.path().join(name);
    std::fs::copy(path("data.cntk"), path("train.cntk")).expect("copying");
    std::fs::create_dir(path("bin")).expect("a folder");
    let tool = common::program();
    let words = std::iter::once(tool.get_program()).chain(tool.get_args());
    let words: Vec<&str> = words.map(|word| word.to_str().expect("UTF-8")).collect();
    let tool = format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" "));
    for (name, text) in [("bin/cntk-reader", tool.as_str()), ("bin/sbatch", SBATCH)] {
        std::fs::write(path(name), text).expect("writing");
        std::fs::set_permissions(path(name), PermissionsExt::from_mode(0o755)).expect("permissions");
    }
    let search = format!("{}:{}", path("bin").display(), std::env::var("PATH").expect("a search path"));
    (folder, search)
}

/// A stand-in for Slurm, which runs a job at once. The tasks of an array run in reverse order.
const SBATCH: &str = r#"#!/bin/sh
set -e
case $1 in
--parsable)
    last=$(sed -n 's/^#SBATCH --array=1-\([0-9]*\)$/\1/p' "$2")
    export SLURM_ARRAY_TASK_COUNT="$last"
    for task in $(seq "$last" -1 1); do SLURM_ARRAY_TASK_ID=$task sh "$2"; done
    echo 17
    ;;
--dependency=afterok:17)
    test "$2" = --wrap
    sh -c "$3"
    ;;
*) exit 1 ;;
esac
"#;

/// Runs a script in the folder. Returns what it prints.
fn run_script(folder: &Path, search: &str, script: &str) -> String {
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-e", "-c", script]).env("PATH", search).current_dir(folder).output();
    let output = output.expect("a shell");
    let [said, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{errors}");
    said
}

/// Checks that the merged report equals the report of the whole.
fn check_merged(folder: &Path, said: &str, parts: usize) {
    let (_, whole, _) = run(folder, &["convert", "train.cntk", "whole.cbf"]);
    let digest = whole.split("digest ").nth(1).and_then(|rest| rest.split(',').next()).expect("a digest");
    let expected = format!("{parts} parts, 2,000 sequences");
    assert!(said.contains(&expected) && said.contains(digest), "{said} {whole}");
}

#[test]
fn the_loop_of_the_documentation_converts_all() {
    let (folder, search) = folder_for_scripts();
    let said = run_script(folder.path(), &search, block(PAGE, "for part in"));
    check_merged(folder.path(), &said, 4);
}

#[test]
fn the_job_array_of_the_documentation_converts_all() {
    let (folder, search) = folder_for_scripts();
    std::fs::write(folder.path().join("convert.sh"), block(PAGE, "#!/bin/sh\n#SBATCH")).expect("writing");
    let said = run_script(folder.path(), &search, block(PAGE, "mkdir -p out"));
    // Most of them are empty.
    check_merged(folder.path(), &said, 100);
}
