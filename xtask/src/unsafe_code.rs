//! How much unsafe code there is: counted by module, and compared with the table in docs/unsafe.md,
//! so that none is added unseen.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use tooling::project::Project;

/// The document with the table.
const DOCUMENT: &str = "docs/unsafe.md";

/// The first cell of the table's head.
const HEAD: &str = "| module |";

/// Folders of the code that users run, in which each folder and file is a module of the table.
const FOLDERS: [&str; 9] = [
    "crates/core/src/",
    "crates/text/src/",
    "crates/speech/src/",
    "crates/images/src/",
    "crates/engine/src/",
    "crates/tools/src/",
    "crates/capi/",
    "src/",
    "cli/src/",
];

/// Numbers of unsafe items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    /// Blocks.
    blocks: usize,
    /// Functions that only careful callers may call, functions for C among them.
    functions: usize,
    /// Implementations of unsafe traits, and such traits.
    traits: usize,
}

impl Count {
    fn total(self) -> usize {
        self.blocks + self.functions + self.traits
    }
}

impl Display for Count {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} | {} | {}", self.blocks, self.functions, self.traits)
    }
}

/// `cargo xtask unsafe`: writes the numbers into the table.
pub fn command(project: &Project) -> Result<()> {
    let text = std::fs::read_to_string(project.path(DOCUMENT))?;
    let new = filled(&text, &count(project)?)?;
    std::fs::write(project.path(DOCUMENT), new)?;
    say!("{DOCUMENT} is written. Each new line needs a reason in its last cell.");
    Ok(())
}

/// Fails if the table has other numbers than the code, or a module without a reason. Returns the
/// number of modules.
pub fn check(project: &Project) -> Result<usize> {
    let text = std::fs::read_to_string(project.path(DOCUMENT))?;
    let counts = count(project)?;
    let new = filled(&text, &counts)?;
    let differing: Vec<&str> = new.lines().filter(|line| !text.lines().any(|old| old == *line)).collect();
    ensure!(
        text == new,
        "{DOCUMENT} has other numbers than the code. If the unsafe code is needed: cargo xtask unsafe, and give the reason. Now:\n{}",
        differing.join("\n")
    );
    let without = new.lines().find(|line| line.starts_with("| `") && line.ends_with("|  |"));
    ensure!(without.is_none(), "{DOCUMENT} has no reason for {}", without.unwrap_or_default());
    Ok(counts.len())
}

/// Counts by module: a folder or file right below the folders of code.
fn count(project: &Project) -> Result<BTreeMap<String, Count>> {
    let mut counts = BTreeMap::<String, Count>::new();
    for file in project.files()? {
        let is_test = file.ends_with("/tests.rs") || file.ends_with("_tests.rs") || file.contains("/tests/");
        let Some(folder) = FOLDERS.iter().find(|folder| file.starts_with(*folder)) else { continue };
        if is_test || !file.ends_with(".rs") {
            continue;
        }
        let module = match file[folder.len()..].split_once('/') {
            Some((below, _)) => format!("{folder}{below}/"),
            None => file.clone(),
        };
        let found = count_in(&std::fs::read_to_string(project.path(&file))?);
        if found.total() > 0 {
            let sum = counts.entry(module).or_default();
            sum.blocks += found.blocks;
            sum.functions += found.functions;
            sum.traits += found.traits;
        }
    }
    ensure!(!counts.is_empty(), "No unsafe code was found at all: the code is not understood.");
    Ok(counts)
}

/// Counts in one file, up to its tests.
fn count_in(text: &str) -> Count {
    let code = bare(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default());
    let mut words = code.split_whitespace().skip_while(|word| *word != "unsafe").peekable();
    let mut count = Count::default();
    while let Some(word) = words.next() {
        if word != "unsafe" {
            continue;
        }
        if words.peek() == Some(&"extern") {
            words.next();
        }
        match words.next() {
            Some("{") => count.blocks += 1,
            // The type of a function's address has no name.
            Some("fn") if words.peek() != Some(&"(") => count.functions += 1,
            Some("impl" | "trait") => count.traits += 1,
            _ => {}
        }
    }
    count
}

/// Code without comments, texts and characters, with spaces around braces and parentheses.
fn bare(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => quoted(rest),
            'r' if rest.starts_with("r\"") => rest[2..].find('"').map_or(rest.len(), |end| end + 3),
            'r' if rest.starts_with("r#\"") => rest.find("\"#").map_or(rest.len(), |end| end + 2),
            // A character, and not a lifetime.
            '\'' if rest.starts_with("'\\") => rest[2..].find('\'').map_or(rest.len(), |end| end + 3).max(4),
            '\'' => {
                rest.char_indices().nth(2).filter(|(_, last)| *last == '\'').map_or(0, |(end, _)| end + 1)
            }
            _ => 0,
        };
        if skipped > 0 {
            rest = &rest[skipped..];
            continue;
        }
        match first {
            '{' | '}' | '(' | ')' | '[' | ']' => code.extend([' ', first, ' ']),
            _ => code.push(first),
        }
        rest = &rest[first.len_utf8()..];
    }
    code
}

/// The length of the text in quotation marks that `rest` begins with.
fn quoted(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            _ => escaped = byte == b'\\' && !escaped,
        }
    }
    rest.len()
}

/// The document with these numbers in its table. Reasons stay; a module that is new has none.
fn filled(text: &str, counts: &BTreeMap<String, Count>) -> Result<String> {
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().position(|line| line.starts_with(HEAD));
    let first = head.with_context(|| format!("{DOCUMENT} has no table"))? + 2;
    let end =
        lines[first..].iter().position(|line| !line.starts_with('|')).map_or(lines.len(), |at| first + at);
    let reasons: BTreeMap<&str, &str> = lines[first..end]
        .iter()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            Some((cells.get(1)?.trim_matches('`'), *cells.get(5)?))
        })
        .collect();
    let mut new: Vec<String> = lines[..first].iter().map(|line| (*line).to_owned()).collect();
    let mut sum = Count::default();
    for (module, count) in counts {
        sum.blocks += count.blocks;
        sum.functions += count.functions;
        sum.traits += count.traits;
        new.push(format!("| `{module}` | {count} | {} |", reasons.get(module.as_str()).unwrap_or(&"")));
    }
    new.push(format!("| all | {sum} | {} |", reasons.get("all").unwrap_or(&"")));
    new.extend(lines[end..].iter().map(|line| (*line).to_owned()));
    Ok(new.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_unsafe() {
        let code = "
            //! unsafe { } in a comment
            pub unsafe fn a() {}
            unsafe extern \"C\" fn b() { let x = \"unsafe { }\"; }
            struct S { call: unsafe extern \"C\" fn(i32), other: unsafe fn() }
            unsafe impl Send for S {}
            #[unsafe(no_mangle)]
            fn c<'a>(q: &'a u8) { let _ = ('\"', '\\'', b'{'); unsafe { a() }; unsafe{ a() } }
            unsafe extern \"C\" { fn pow(x: f64); }
            #[cfg(test)]\nmod tests {
                fn d() { unsafe { a() } }
            }
        ";
        let code = code.replace("            #[cfg", "#[cfg");
        assert_eq!(count_in(&code), Count { blocks: 3, functions: 2, traits: 1 });
    }

    #[test]
    fn the_table_keeps_its_reasons() {
        let text = "# A\n\n| module | blocks | functions | traits | why |\n| --- | --- | --- | --- | --- |\n\
                    | `src/a/` | 1 | 2 | 3 | speed |\n| all | 1 | 2 | 3 | |\n\nend\n";
        let counts = [("src/a/".to_owned(), 4), ("src/b.rs".to_owned(), 1)];
        let counts = counts.map(|(module, blocks)| (module, Count { blocks, ..Count::default() }));
        let new = filled(text, &counts.into()).expect("a table");
        assert!(new.contains(
            "| `src/a/` | 4 | 0 | 0 | speed |\n| `src/b.rs` | 1 | 0 | 0 |  |\n| all | 5 | 0 | 0 |  |\n\nend\n"
        ));
    }
}
