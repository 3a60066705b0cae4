//! `cargo xtask header`: the C header, written from the Rust code by cbindgen.

use crate::project::Project;
use anyhow::{Context, Result, bail};

/// The header.
pub const PATH: &str = "include/cntk_reader.h";

/// Writes the header.
pub fn command(project: &Project) -> Result<()> {
    let text = project.part("header from the Rust code", || generate(project))?;
    let path = project.path(PATH);
    if std::fs::read(&path).is_ok_and(|old| old == text) {
        println!("{PATH} is up to date");
    } else {
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        println!("{PATH} written");
    }
    Ok(())
}

/// Fails if the committed header is not the one that the code gives.
pub fn check(project: &Project) -> Result<()> {
    let fresh = String::from_utf8(generate(project)?)?;
    let committed = std::fs::read_to_string(project.path(PATH)).with_context(|| format!("reading {PATH}"))?;
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
                "{PATH} differs from the Rust code in line {number}:\n  is      {old}\n  must be {line}\ncargo xtask header writes it."
            );
        }
        if line.is_none() {
            bail!("{PATH} differs from the Rust code in its line ends. cargo xtask header writes it.");
        }
    }
}

/// The number of the ABI that the committed header describes.
pub fn abi(project: &Project) -> Result<String> {
    let text = std::fs::read_to_string(project.path(PATH)).with_context(|| format!("reading {PATH}"))?;
    let number = text.lines().find_map(|line| line.strip_prefix("#define CNTK_READER_ABI_VERSION "));
    Ok(number.with_context(|| format!("{PATH} has no CNTK_READER_ABI_VERSION"))?.trim().to_owned())
}

/// Reads the C layer only, one file after the other: the names of the engine do not belong into the header.
fn generate(project: &Project) -> Result<Vec<u8>> {
    let config = cbindgen::Config::from_file(project.path("cbindgen.toml")).map_err(anyhow::Error::msg)?;
    let layer = project.path("src/capi");
    let list = std::fs::read_to_string(layer.join("mod.rs"))?;
    let nouns = list.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let files = nouns.map(|noun| layer.join(noun).with_extension("rs"));
    let builder = files.fold(cbindgen::Builder::new(), cbindgen::Builder::with_src);
    let mut text = Vec::new();
    builder.with_config(config).generate()?.write(&mut text);
    Ok(text)
}
