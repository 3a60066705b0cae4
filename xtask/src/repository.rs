//! The steps `paths` and `links`: no file contains paths of a machine, and no link in a document is
//! broken.

use anyhow::{Result, ensure};
use tooling::project::Project;
use tooling::{Tally, python};

/// A linter for Markdown, as a binary package from PyPI.
const RUMDL: &str = "rumdl==0.3.0";
/// Its rules about links to headings and files.
const LINKS: &str = "MD051,MD057";

/// Top folders of paths that exist on one machine only.
const MACHINE_FOLDERS: [&str; 6] = ["home", "root", "Users", "work", "farm", "mnt"];
/// The only registry for dependencies.
const REGISTRY: &str = "\"registry+https://github.com/rust-lang/crates.io-index\"";

/// Fails if a file contains paths of a machine. Returns the number of files.
pub fn machine_paths(project: &Project) -> Result<usize> {
    let own = project.root.to_string_lossy().into_owned();
    let mut found = Vec::new();
    let files = project.files()?;
    for file in &files {
        let Ok(text) = std::fs::read_to_string(project.path(file)) else { continue };
        for (number, line) in text.lines().enumerate() {
            if names_machine_path(line) || line.contains(&own) {
                found.push(format!("{file}:{}: {}", number + 1, line.trim()));
            }
            if file.ends_with("Cargo.lock") && line.starts_with("source = ") && !line.ends_with(REGISTRY) {
                found.push(format!("{file}:{}: another registry: {line}", number + 1));
            }
        }
    }
    ensure!(found.is_empty(), "These lines are of no use on other machines:\n{}", found.join("\n"));
    Ok(files.len())
}

/// Whether a line contains an absolute path below one of the [`MACHINE_FOLDERS`].
fn names_machine_path(line: &str) -> bool {
    MACHINE_FOLDERS.iter().any(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(start, _)| {
            let before = line[..start].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "/.-_}$*".contains(c))
        })
    })
}

/// Fails if a link in a document leads to a missing file or heading.
pub fn links(project: &Project) -> Result<Tally> {
    let python = match python::environment_with(project, "links", &[RUMDL])? {
        Ok(python) => python,
        Err(reason) => return Tally::skipped(reason),
    };
    let rumdl = project.run(&python.with_file_name("rumdl").to_string_lossy()).named("rumdl");
    let rumdl = rumdl.args(["check", "--no-config", "--no-cache", "--color", "never", "--enable", LINKS]);
    // These pages have links that are valid in the site, whose build checks them.
    let rumdl = rumdl.args(["--exclude", "docs/site/pages"]);
    // Headings of other documents are known only if all documents are checked together.
    rumdl.arg(".").go()?;
    Tally::passed(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_recognized() {
        let path = ["", "home", "me", "x"].join("/");
        assert!(names_machine_path(&format!("see {path}")));
        assert!(names_machine_path(&format!("\"{path}\"")));
        assert!(!names_machine_path(&format!("target{path}")));
        assert!(!names_machine_path("/usr/include"));
    }
}
