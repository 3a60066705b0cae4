//! `cargo xtask reproducible`: checks that builds of the library in two folders give the same
//! bytes.

use anyhow::{Context, Result, bail};
use std::path::Path;
use tooling::dist::{self, Dist};
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
    let files = compare(&built[0], &built[1])?;
    // Kept only if they differ.
    std::fs::remove_dir_all(&scratch)?;
    Ok(format!("The two builds have the same {files} files, byte by byte."))
}

/// Copies the files of the checkout to another folder.
fn copy(project: &Project, root: &Path) -> Result<Project> {
    for file in project.files()? {
        let (from, to) = (project.path(&file), root.join(&file));
        std::fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        std::fs::copy(&from, &to).with_context(|| format!("copying {file}"))?;
    }
    let (root, target) = (root.to_owned(), root.join("target"));
    Ok(Project { root, target, ..project.clone() })
}

/// Fails if a file differs. Returns the number of files.
fn compare(one: &Dist, other: &Dist) -> Result<usize> {
    let (mut names, mut others) = (Vec::new(), Vec::new());
    list(&one.folder, &one.folder, &mut names)?;
    list(&other.folder, &other.folder, &mut others)?;
    let mut differing: Vec<&String> = names
        .iter()
        .filter(|name| !others.contains(name))
        .chain(others.iter().filter(|name| !names.contains(name)))
        .collect();
    for name in names.iter().filter(|name| others.contains(name)) {
        if std::fs::read(one.folder.join(name))? != std::fs::read(other.folder.join(name))? {
            differing.push(name);
        }
    }
    if !differing.is_empty() {
        bail!("These files of {} and {} differ: {differing:?}", one.folder.display(), other.folder.display());
    }
    Ok(names.len())
}

fn list(root: &Path, folder: &Path, files: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(root, &path, files)?;
        } else {
            files.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
        }
    }
    files.sort();
    Ok(())
}
