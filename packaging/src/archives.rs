//! Archives of the same bytes whenever they are packed: sorted names, one time, no owners.

use crate::commit;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use tooling::project::Project;

/// Packs a folder into `to`, and once more, which must give the same bytes. The ending of `to`
/// chooses between `.tar.gz` and `.zip`.
pub fn pack(project: &Project, folder: &Path, to: &Path) -> Result<()> {
    let name = folder.file_name().context("a folder has a name")?.to_string_lossy().into_owned();
    let parent = folder.parent().context("a folder has a parent")?;
    let is_zip = to.extension().is_some_and(|extension| extension == "zip");
    let again = parent.join(if is_zip { "again.zip" } else { "again.tar.gz" });
    for file in [to, &again] {
        if is_zip {
            let listed = project.run("find").arg(&name).args(["-type", "f"]).folder(parent).output()?;
            let mut names: Vec<&str> = listed.lines().collect();
            names.sort_unstable();
            zip(project, parent, &names, file)?;
        } else {
            tar(project, parent, &name, file)?;
        }
    }
    let is_same = std::fs::read(to)? == std::fs::read(&again)?;
    ensure!(is_same, "Packing {name} twice gives different bytes.");
    std::fs::remove_file(again)?;
    Ok(())
}

fn tar(project: &Project, parent: &Path, name: &str, to: &Path) -> Result<()> {
    let tar = project.run("tar").args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    let time = format!("--mtime=@{}", commit(project)?.seconds);
    let tar = tar.args(["--format=gnu", "--mode=a+rX,u+w,go-w", &time]);
    let tar = tar.args(["--use-compress-program=gzip -n -9", "--directory"]).arg(parent);
    tar.arg("--create").arg("--file").arg(to).arg(name).go().map(drop)
}

/// Packs files into a new zip file, in this order. Their names are relative to `folder`.
pub fn zip(project: &Project, folder: &Path, names: &[&str], to: &Path) -> Result<()> {
    let time = commit(project)?.time()?;
    for name in names {
        let file = std::fs::File::options().append(true).open(folder.join(name))?;
        file.set_modified(time)?;
    }
    let _ = std::fs::remove_file(to);
    // Dates in zip files are local.
    let zip = project.run("zip").folder(folder).env("TZ", "UTC").args(["-X", "-q", "-D", "-nw"]);
    zip.arg(to).args(names).go().map(drop)
}
