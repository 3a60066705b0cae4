//! `cargo xtask reproducible`: checks that builds of the library in two folders give the same
//! bytes.

use anyhow::Result;
use std::path::Path;
use tooling::dist;
use tooling::project::{Project, empty_folder};

/// The folders below target/reproducible, with different names, depths and lengths.
const FOLDERS: [&str; 2] = ["one", "another/folder of sources"];

/// Builds twice, and compares all installed files.
pub fn command(project: &Project) -> Result<()> {
    say!("\n{}", figures(project)?);
    Ok(())
}

/// Runs [`command`], and returns the result as a sentence.
pub fn figures(project: &Project) -> Result<String> {
    let scratch = project.target.join("reproducible");
    empty_folder(&scratch)?;
    let mut built = Vec::new();
    for folder in FOLDERS {
        let copy = copy(project, &scratch.join(folder))?;
        built.push(
            project
                .part(&format!("library in {}", project.shown(&format!("reproducible/{folder}"))), || {
                    dist::build(&copy)
                })?,
        );
    }
    let files = compare(project, &built[0].folder, &built[1].folder)?;
    // Kept only if they differ.
    std::fs::remove_dir_all(&scratch)?;
    Ok(format!("The two builds have the same {files} files, byte by byte."))
}

/// Copies the files of the checkout to another folder.
fn copy(project: &Project, root: &Path) -> Result<Project> {
    std::fs::create_dir_all(root)?;
    project.run("cp").args(["--parents", "--target-directory"]).arg(root).args(project.files()?).go()?;
    let (root, target) = (root.to_owned(), root.join("target"));
    Ok(Project { root, target, ..project.clone() })
}

/// Fails if a file differs. Returns the number of files.
fn compare(project: &Project, one: &Path, other: &Path) -> Result<usize> {
    project.run("diff").args(["--recursive", "--brief"]).arg(one).arg(other).go()?;
    let files = project.run("find").arg(one).args(["!", "-type", "d", "-printf", "."]).output()?;
    Ok(files.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_and_missing_files_are_noticed() {
        let project = Project::find(false).expect("a project");
        let scratch = std::env::temp_dir().join(format!("cntk-reader-reproducible-{}", std::process::id()));
        let [one, other] = ["one", "other"].map(|name| scratch.join(name));
        for folder in [&one, &other] {
            empty_folder(&folder.join("lib")).expect("a folder");
            std::fs::write(folder.join("lib/a"), "a").expect("a file");
            std::fs::write(folder.join("b"), "b").expect("a file");
        }
        assert_eq!(compare(&project, &one, &other).expect("equal folders"), 2);
        std::fs::write(other.join("lib/a"), "A").expect("a file");
        assert!(compare(&project, &one, &other).is_err(), "a file differs");
        std::fs::remove_file(other.join("lib/a")).expect("removed");
        assert!(compare(&project, &one, &other).is_err(), "a file is missing");
        std::fs::remove_dir_all(scratch).expect("removed");
    }
}
