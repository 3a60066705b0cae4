//! The step `layers`: crates import only crates below them, and folders of a crate have no import
//! cycles.

use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use tooling::Tally;
use tooling::joint::LIBRARY;
use tooling::project::Project;

/// The crates of the library that each crate may import, by the suffixes of their names. Tests of a
/// crate may import any.
const BELOW: [(&str, &[&str]); 9] = [
    ("-core", &[]),
    ("-arrays", &["-core"]),
    ("-text", &["-core"]),
    ("-speech", &["-core"]),
    ("-images", &["-core", "-text"]),
    ("-engine", &["-core"]),
    ("", &["-core", "-engine", "-arrays", "-text", "-speech", "-images"]),
    ("-tools", &["-core", "-engine", "-arrays", "-text", "-speech", "-images", ""]),
    ("-capi", &["-core", "-engine", "-text", "-images", "", "-tools"]),
];

/// Checks crates and folders. The result counts crates.
pub fn step(project: &Project) -> Result<Tally> {
    for package in LIBRARY {
        let end = package.strip_prefix("cntk-reader").unwrap_or_default();
        let (_, below) = BELOW.iter().find(|(name, _)| *name == end).context("a crate without a layer")?;
        let folder = match end.strip_prefix('-') {
            Some(name) => format!("crates/{name}"),
            None => ".".to_owned(),
        };
        let manifest = std::fs::read_to_string(project.path(&format!("{folder}/Cargo.toml")))?;
        for import in dependencies(&manifest) {
            ensure!(
                below.iter().any(|end| import == format!("cntk-reader{end}")),
                "{package} imports {import}, which is not below it: see docs/architecture.md"
            );
        }
        let source = format!("{folder}/src/").trim_start_matches("./").to_owned();
        // The C interface has a file for each noun, and nouns refer to each other.
        if end != "-capi" {
            check_folders(project, &source)?;
        }
    }
    Tally::passed(LIBRARY.len())
}

/// Returns the library crates among a manifest's normal dependencies.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let names = section.lines().map(|line| line.split([' ', '.', '=']).next().unwrap_or_default());
    names.filter(|name| name.starts_with("cntk-reader"))
}

/// Fails if two folders or files directly below `source` import each other, even indirectly.
fn check_folders(project: &Project, source: &str) -> Result<()> {
    let mut imports = BTreeMap::<String, BTreeMap<String, String>>::new();
    for file in project.files()? {
        let Some(path) = file.strip_prefix(source) else { continue };
        let top = path.split(['/', '.']).next().unwrap_or_default();
        if !path.ends_with(".rs") || is_of_tests(path) || top == "lib" {
            continue;
        }
        let text = std::fs::read_to_string(project.path(&file))?;
        for import in imported(&text).filter(|import| *import != top) {
            imports.entry(top.to_owned()).or_default().entry(import.to_owned()).or_insert(file.clone());
        }
    }
    for (from, direct) in &imports {
        for (to, file) in direct {
            if reaches(&imports, to, from) {
                bail!("{source}: '{from}' imports '{to}' ({file}), and '{to}' imports '{from}'");
            }
        }
    }
    Ok(())
}

fn is_of_tests(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    path.contains("tests/")
        || name.ends_with("tests.rs")
        || ["differential.rs", "reference.rs", "schedules.rs"].contains(&name)
}

/// Whether one folder imports another, even indirectly.
fn reaches(imports: &BTreeMap<String, BTreeMap<String, String>>, from: &str, to: &str) -> bool {
    let (mut waiting, mut seen) = (vec![from], BTreeSet::new());
    while let Some(one) = waiting.pop() {
        if one == to {
            return true;
        }
        if seen.insert(one) {
            waiting.extend(imports.get(one).into_iter().flat_map(BTreeMap::keys).map(String::as_str));
        }
    }
    false
}

/// Returns the modules of its own crate that a source imports, except in tests.
fn imported(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split("crate::").skip(1)).flat_map(|path| {
        let names = path.strip_prefix('{').unwrap_or(path);
        let count = if names.len() == path.len() { 1 } else { usize::MAX };
        names.split(',').take(count).filter_map(|name| {
            let name = name.trim_start();
            let end = name.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(name.len());
            // Items at the root of a crate come from the module `error`.
            let is_module = name.starts_with(|c: char| c.is_ascii_lowercase());
            match &name[..end] {
                "Error" | "ErrorKind" | "Result" | "Location" => Some("error"),
                module if is_module && !name[end..].starts_with('(') => Some(module),
                _ => None,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_found() {
        let text = "//! See crate::doc.\nuse crate::a::B;\nuse crate::{Error, c::D, e};\nfn f() { crate::g::h(); }\n\
                    #[cfg(test)]\nmod tests {\n    use crate::z::Z;\n}\n";
        assert_eq!(imported(text).collect::<Vec<_>>(), ["a", "error", "c", "e", "g"]);
    }

    #[test]
    fn dev_dependencies_do_not_count() {
        let manifest = "[package]\nname = \"cntk-reader-x\"\n\n[dependencies]\ncntk-reader-core.workspace = true\n\
                        libc = \"0.2\"\n\n[dev-dependencies]\ncntk-reader-engine.workspace = true\n";
        assert_eq!(dependencies(manifest).collect::<Vec<_>>(), ["cntk-reader-core"]);
    }

    #[test]
    fn cycles_are_found() {
        let to = |name: &str| BTreeMap::from([(name.to_owned(), String::new())]);
        let imports = BTreeMap::from([
            ("a".to_owned(), to("b")),
            ("b".to_owned(), to("c")),
            ("c".to_owned(), to("a")),
            ("d".to_owned(), to("a")),
        ]);
        assert!(reaches(&imports, "b", "a"));
        assert!(!reaches(&imports, "a", "d"));
    }
}
