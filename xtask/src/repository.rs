//! Checks of the repository's text: no file names a machine's paths, and no link of a document is broken.

use anyhow::{Context, Result, ensure};
use std::collections::HashSet;
use std::path::Path;
use tasks::project::Project;

/// First folders of paths that exist on one machine only.
const MACHINE_FOLDERS: [&str; 6] = ["home", "root", "Users", "work", "farm", "mnt"];
/// The one registry that dependencies come from.
const REGISTRY: &str = "\"registry+https://github.com/rust-lang/crates.io-index\"";

/// Fails if a file names paths of a machine; returns the number of files.
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

/// Whether an absolute path below one of the [`MACHINE_FOLDERS`] is in the line.
fn names_machine_path(line: &str) -> bool {
    MACHINE_FOLDERS.iter().any(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(start, _)| {
            let before = line[..start].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "/.-_}$*".contains(c))
        })
    })
}

/// Fails if a link in a document leads nowhere; returns the number of links to files and headings of the project.
pub fn links(project: &Project) -> Result<usize> {
    let mut count = 0;
    let mut broken = Vec::new();
    for file in project.files()?.iter().filter(|file| file.ends_with(".md")) {
        let path = project.path(file);
        for target in link_targets(&std::fs::read_to_string(&path)?) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            count += 1;
            if !leads_somewhere(&path, &target)? {
                broken.push(format!("{file}: {target}"));
            }
        }
    }
    ensure!(broken.is_empty(), "These links lead nowhere:\n{}", broken.join("\n"));
    Ok(count)
}

/// The targets of the `[text](target)` links of a document, outside of code.
fn link_targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for line in prose(text) {
        for part in line.split("](").skip(1) {
            targets.extend(part.split_once(')').map(|(target, _)| target.to_owned()));
        }
    }
    targets
}

/// The lines of a document that are not in blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

fn leads_somewhere(document: &Path, target: &str) -> Result<bool> {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let folder = document.parent().context("a document has a folder")?;
    let path = if file.is_empty() { document.to_owned() } else { folder.join(file) };
    if heading.is_empty() || !path.is_file() {
        return Ok(heading.is_empty() && path.exists());
    }
    let text = std::fs::read_to_string(path)?;
    let headings: HashSet<String> = prose(&text)
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect();
    Ok(headings.contains(heading))
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_machine_paths() {
        let path = ["", "home", "me", "x"].join("/");
        assert!(names_machine_path(&format!("see {path}")));
        assert!(names_machine_path(&format!("\"{path}\"")));
        assert!(!names_machine_path(&format!("target{path}")));
        assert!(!names_machine_path("/usr/include"));
    }

    #[test]
    fn finds_links_outside_of_code() {
        let text = "a [b](c.md) and [d](e.md#f)\n```\n[no](link)\n```\n";
        assert_eq!(link_targets(text), ["c.md", "e.md#f"]);
    }

    #[test]
    fn makes_anchors() {
        assert_eq!(anchor(" What works, and what does not"), "what-works-and-what-does-not");
    }
}
