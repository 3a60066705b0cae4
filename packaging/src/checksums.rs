//! Lists of checksums, in the form that `sha256sum --check` reads.

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Name of the file with the checksums of the others in its folder.
pub const NAME: &str = "SHA256SUMS";

/// Writes the checksums of files below a folder into it, and returns the path of the list.
pub fn write(folder: &Path, files: &[PathBuf]) -> Result<PathBuf> {
    let mut sums = String::new();
    for file in files {
        let name = file.strip_prefix(folder).context("checksums are beside their files")?;
        for byte in Sha256::digest(std::fs::read(file)?) {
            write!(sums, "{byte:02x}")?;
        }
        writeln!(sums, "  {}", name.display())?;
    }
    let list = folder.join(NAME);
    std::fs::write(&list, sums)?;
    Ok(list)
}
