//! Checks that the version in Cargo.toml is the one in all other places.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tooling::project::Project;

/// The version of packages that are never published.
const NEVER: &str = "0.0.0";

/// Places that no rule for several files finds. `@` stands for the version.
const PLACES: [(&str, &str); 8] = [
    ("include/cntk_reader.h", "version as text (\"@\")"),
    ("include/cntk_reader/process.hpp", "such as \"@\""),
    ("crates/capi/src/version.rs", "version as text (\"@\")"),
    ("clib/Cargo.toml", "libcntk-reader1 (= @-1)"),
    ("clib/Cargo.toml", "\"libcntk-reader1(x86-64)\" = \"= @-1\""),
    // These take it from Cargo.toml.
    ("CMakeLists.txt", "/Cargo.toml\" version REGEX"),
    ("cmake/cntk_reader.pc.in", "Version: @VERSION@"),
    ("python/pyproject.toml", "dynamic = [\"version\"]"),
];

/// Files that name other versions: of the past, or made up by tests.
const OTHERS: [&str; 3] = ["CHANGELOG.md", "benches/record/", "dropin/src/operator/"];

/// Fails if a place has another version. Returns the number of places.
pub fn check(project: &Project, version: &str) -> Result<usize> {
    let mut wrong = Vec::new();
    let mut count = packages(project, version, &mut wrong)?;
    for (file, text) in PLACES {
        // CMake's templates have placeholders of this form.
        let text = if text.contains("@VERSION@") { text.to_owned() } else { text.replace('@', version) };
        if !read(project, file)?.contains(&text) {
            wrong.push(format!("{file} does not have '{text}'"));
        }
        count += 1;
    }
    let header = read(project, "include/cntk_reader.h")?;
    for (name, number) in ["MAJOR", "MINOR", "PATCH"].iter().zip(version.split('.')) {
        let line = format!("#define CNTK_READER_VERSION_{name} {number}\n");
        if !header.contains(&line) {
            wrong.push(format!("include/cntk_reader.h does not have '{}'", line.trim()));
        }
        count += 1;
    }
    for file in project.files()?.iter().filter(|file| OTHERS.iter().all(|other| !file.starts_with(other))) {
        let Ok(text) = std::fs::read_to_string(project.path(file)) else { continue };
        let found = in_text(file, &text);
        count += found.len();
        wrong.extend(
            found
                .iter()
                .filter(|found| found.version != version && found.version != NEVER)
                .map(|found| format!("{file}:{} has {}", found.line, found.version)),
        );
    }
    ensure!(wrong.is_empty(), "The version is {version} in Cargo.toml. Elsewhere:\n{}", wrong.join("\n"));
    Ok(count)
}

/// Checks the packages of the workspace as cargo knows them.
fn packages(project: &Project, version: &str, wrong: &mut Vec<String>) -> Result<usize> {
    let metadata = project.cargo("metadata").args(["--no-deps", "--format-version=1"]).output()?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo knows no packages")?;
    for package in packages {
        let (name, own) = (&package["name"], &package["version"]);
        let is_published = package["publish"].is_null();
        if own != version && (is_published || own != NEVER) {
            wrong.push(format!("package {name} has {own}"));
        }
    }
    Ok(packages.len())
}

/// A version of this project in a text.
struct Found<'a> {
    line: usize,
    version: &'a str,
}

/// Finds the versions of this project in a file: after its name in any text, in lock files, in the
/// list of the workspace's own crates, and as the value of `version` in recipes of packages.
fn in_text<'a>(file: &str, text: &'a str) -> Vec<Found<'a>> {
    let is_recipe = file.starts_with("packaging/") && !file.ends_with(".rs") && !file.ends_with("Cargo.toml");
    let (is_lock, is_list) = (file.ends_with("Cargo.lock"), file == "Cargo.toml");
    let (mut found, mut is_own) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        let mut add = |version: Option<&'a str>| {
            found.extend(version.map(|version| Found { line: number + 1, version }));
        };
        for (start, name) in line.match_indices("cntk-reader ") {
            add(leading(&line[start + name.len()..]));
        }
        if is_lock {
            // A package's version is in the line after its name.
            add(value(line, "version").filter(|_| is_own));
            is_own = value(line, "name").is_some_and(|name| name.starts_with("cntk-reader"));
        } else if is_list && line.starts_with("cntk-reader") {
            add(line.split_once("version = \"=").and_then(|(_, version)| leading(version)));
        } else if is_recipe {
            add(of_recipe(line));
        }
    }
    found
}

/// Returns the version in a line such as `version: 0.1.0`, `"version": "0.1.0"`, `version = "0.1.0"`
/// or `<version>0.1.0</version>`.
fn of_recipe(line: &str) -> Option<&str> {
    let rest = line.trim_start().trim_start_matches(['"', '<', '-', ' ']).strip_prefix("version")?;
    let rest = rest.strip_prefix("-string").or_else(|| rest.strip_prefix("-semver")).unwrap_or(rest);
    leading(rest.trim_start_matches(['"', ' ', ':', '=', '>']))
}

/// Returns the value of a line `name = "value"`.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix(name)?.strip_prefix(" = \"")?.split('"').next()
}

/// Returns the version at the beginning of a text: three numbers.
fn leading(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let version = text[..end].trim_end_matches('.');
    let is_version = version.split('.').count() == 3 && version.split('.').all(|part| !part.is_empty());
    is_version.then_some(version)
}

/// Returns the section of the changelog about this version, and whether it has the version and a
/// date. Otherwise it is the section about what is not released.
pub fn notes(project: &Project, version: &str) -> Result<(String, bool)> {
    let text = read(project, "CHANGELOG.md")?;
    let (notes, is_dated) = section(&text, version)
        .with_context(|| format!("CHANGELOG.md has neither a section [{version}] nor [Unreleased]."))?;
    ensure!(!notes.trim().is_empty(), "The section of CHANGELOG.md about {version} is empty.");
    Ok((notes.trim().to_owned() + "\n", is_dated))
}

fn section<'a>(text: &'a str, version: &str) -> Option<(&'a str, bool)> {
    let find = |heading: &str| {
        let rest = text.split_once(heading)?.1.split_once('\n')?.1;
        Some(rest.split("\n## ").next().unwrap_or(rest))
    };
    let dated = find(&format!("\n## [{version}] - ")).map(|notes| (notes, true));
    dated.or_else(|| find("\n## [Unreleased]").map(|notes| (notes, false)))
}

fn read(project: &Project, file: &str) -> Result<String> {
    std::fs::read_to_string(project.path(file)).with_context(|| format!("reading {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(file: &str, text: &str) -> Vec<String> {
        in_text(file, text).iter().map(|found| format!("{}: {}", found.line, found.version)).collect()
    }

    #[test]
    fn versions_are_found_in_each_kind_of_file() {
        // In two parts, because the check reads this file, too.
        let text = concat!("a\ncntk-reader ", "0.1.0 reads; cntk-reader 2 and 1.2.3");
        assert_eq!(versions("docs/x.md", text), ["2: 0.1.0"]);
        let lock = "name = \"cntk-reader-core\"\nversion = \"0.2.0\"\nname = \"libc\"\nversion = \"0.3.1\"\n";
        assert_eq!(versions("fuzz/Cargo.lock", lock), ["2: 0.2.0"]);
        let list =
            "memchr = { version = \"2.8.0\" }\ncntk-reader-cli = { path = \"cli\", version = \"=0.1.9\" }\n";
        assert_eq!(versions("Cargo.toml", list), ["2: 0.1.9"]);
        assert_eq!(versions("packaging/conda/recipe.yaml", "  version: 0.1.0\nversion: 3\n"), ["1: 0.1.0"]);
        assert_eq!(versions("packaging/vcpkg/vcpkg.json", "  \"version-semver\": \"0.1.0\","), ["1: 0.1.0"]);
        assert_eq!(versions("packaging/x.nuspec", "    <version>0.1.0</version>"), ["1: 0.1.0"]);
        assert!(versions("packaging/Cargo.toml", "version = \"0.0.0\"").is_empty());
    }

    #[test]
    fn section_of_a_version_is_preferred_to_unreleased() {
        let text = "# Changelog\n\n## [Unreleased]\n\nnew\n\n## [0.2.0] - 2027-01-01\n\nold\n\n## [0.1.0] - 2026-01-01\n";
        assert_eq!(section(text, "0.2.0"), Some(("\nold\n", true)));
        assert_eq!(section(text, "0.3.0"), Some(("\nnew\n", false)));
        assert_eq!(section("# Changelog\n", "0.1.0"), None);
    }
}
