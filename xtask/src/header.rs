//! `cargo xtask header`: generates the C headers from the Rust code with cbindgen.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use tooling::dist::{HEADER, HOST_HEADER};
use tooling::project::Project;

/// The headers: path, cbindgen's configuration, and the folder of the modules, both below
/// `crates/capi`.
const HEADERS: [(&str, &str, &str); 2] =
    [(HEADER, "cbindgen.toml", "src"), (HOST_HEADER, "cbindgen-host.toml", "src/host")];

/// Writes the headers.
pub fn command(project: &Project) -> Result<()> {
    for (header, text) in project.part("headers from the Rust code", || generate(project))? {
        let path = project.path(header);
        if std::fs::read(&path).is_ok_and(|old| old == text.as_bytes()) {
            say!("{header} is up to date");
        } else {
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            say!("{header} written");
        }
    }
    Ok(())
}

/// Fails if a committed header differs from the generated one.
pub fn check(project: &Project) -> Result<()> {
    for (header, fresh) in generate(project)? {
        let committed =
            std::fs::read_to_string(project.path(header)).with_context(|| format!("reading {header}"))?;
        compare(header, &fresh, &committed)?;
    }
    Ok(())
}

/// Fails with the first line that differs.
fn compare(header: &str, fresh: &str, committed: &str) -> Result<()> {
    if fresh == committed {
        return Ok(());
    }
    let (mut lines, mut old) = (fresh.lines(), committed.lines());
    let mut number = 0;
    loop {
        number += 1;
        let (line, old) = (lines.next(), old.next());
        if line != old {
            let [line, old] = [line, old].map(|line| line.unwrap_or("(end of file)"));
            bail!(
                "{header} differs from the Rust code in line {number}:\n  is      {old}\n  must be {line}\ncargo xtask header writes it."
            );
        }
        if line.is_none() {
            bail!("{header} differs from the Rust code in its line ends. cargo xtask header writes it.");
        }
    }
}

/// Returns the declarations of all functions of a header, without semicolons, in the header's
/// order.
pub fn declarations(header: &str) -> Vec<&str> {
    let code = header.split_once("extern \"C\" {").map_or("", |(_, code)| code);
    let pieces = code.split("*/").filter_map(|piece| piece.split("/**").next());
    let declarations =
        pieces.filter_map(|piece| piece.split_once(';').map(|(declaration, _)| declaration.trim()));
    declarations
        .filter(|declaration| declaration.contains("cntk_reader_") && declaration.ends_with(')'))
        .collect()
}

/// Returns the names of a header's enums.
pub fn enums(header: &str) -> Vec<&str> {
    let bodies = header.split("typedef enum {").skip(1);
    bodies.filter_map(|body| body.split_once("} ")?.1.split_once(';').map(|(name, _)| name)).collect()
}

/// Returns the names of a header's functions, sorted.
pub fn functions(header: &str) -> Vec<&str> {
    let mut names: Vec<&str> = declarations(header)
        .into_iter()
        .filter_map(|declaration| declaration.split_once('(')?.0.rsplit([' ', '*']).next())
        .collect();
    names.sort_unstable();
    names
}

/// Fails if two types or functions of the C layer have the same name. cbindgen takes the first one,
/// so a handle with the name of a table of callbacks would become a complete type, and could be
/// passed as one.
fn one_type_a_name(files: &[PathBuf]) -> Result<()> {
    let mut known: Vec<(String, &PathBuf)> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        for name in public_names(&text) {
            if let Some((_, other)) = known.iter().find(|(known, _)| *known == name) {
                bail!(
                    "Two items of the C layer have the name {name}: in {} and in {}.",
                    other.display(),
                    file.display()
                );
            }
            known.push((name, file));
        }
    }
    Ok(())
}

/// Returns the C names that a file of the C layer defines.
fn public_names(text: &str) -> Vec<String> {
    let starts =
        ["pub struct ", "pub enum ", "pub type ", "pub unsafe extern \"C\" fn ", "pub extern \"C\" fn "];
    let name = |line: &str| {
        let rest = starts.iter().find_map(|start| line.strip_prefix(start))?;
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        rest.starts_with("cntk_reader").then(|| rest[..end].to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// Generates the text of each header. Reads only the C layer, file by file: names of the engine do
/// not belong in the headers.
fn generate(project: &Project) -> Result<Vec<(&'static str, String)>> {
    let layer = project.path("crates/capi");
    let mut sources = Vec::new();
    for (_, _, folder) in HEADERS {
        let folder = layer.join(folder);
        let names = ["lib.rs", "mod.rs"].map(|name| folder.join(name));
        let list = names.iter().find(|path| path.is_file()).context("a folder of modules")?;
        let list = std::fs::read_to_string(list)?;
        let nouns = list.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        let files = nouns.map(|noun| folder.join(noun).with_extension("rs"));
        sources.push(files.filter(|file| file.is_file()).collect::<Vec<_>>());
    }
    one_type_a_name(&sources.concat())?;
    let mut texts = Vec::new();
    for ((header, config, _), files) in HEADERS.into_iter().zip(sources) {
        let config = cbindgen::Config::from_file(layer.join(config)).map_err(anyhow::Error::msg)?;
        let builder = files.into_iter().fold(cbindgen::Builder::new(), cbindgen::Builder::with_src);
        let mut text = Vec::new();
        builder.with_config(config).generate()?.write(&mut text);
        texts.push((header, String::from_utf8(text)?));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_for_two_types_is_an_error() {
        let folder = tempfile();
        let files = [folder.join("handle.rs"), folder.join("table.rs")];
        let handle = "/// A handle.\npub struct cntk_reader_chunk(Box<u8>);\npub(super) struct Other;\n";
        std::fs::write(&files[0], handle).expect("a file");
        std::fs::write(&files[1], "pub struct cntk_reader_user_chunk {\n    pub size: usize,\n}\n")
            .expect("a file");
        assert!(one_type_a_name(&files).is_ok());
        std::fs::write(&files[1], "#[repr(C)]\npub struct cntk_reader_chunk {\n    pub size: usize,\n}\n")
            .expect("a file");
        let error = one_type_a_name(&files).expect_err("two types");
        assert!(error.to_string().contains("cntk_reader_chunk"), "{error}");
        std::fs::remove_dir_all(folder).expect("the folder");
    }

    fn tempfile() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("cntk-reader-header-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn declarations_are_found() {
        let header = "typedef int (*cntk_reader_callback)(int);\nextern \"C\" {\n#endif\n/**\n * One; of (two).\n */\n\
                      void cntk_reader_free(cntk_reader *reader);\n\n/**\n * Two.\n */\nconst char *cntk_reader_b(void);\n";
        assert_eq!(functions(header), ["cntk_reader_b", "cntk_reader_free"]);
        assert_eq!(declarations(header)[0], "void cntk_reader_free(cntk_reader *reader)");
    }
}
