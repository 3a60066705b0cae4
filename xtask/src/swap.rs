//! Puts the modules into an installed CNTK, and takes them out again.

use crate::dropin::{HOSTS, Host};
use crate::project::Project;
use anyhow::{Result, bail};
use std::path::Path;

/// The version of the CNTK whose libraries are in a folder.
pub fn host_of(folder: &Path) -> Result<Host> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let version = name.strip_prefix("libCntk.Math-").and_then(|name| name.strip_suffix(".so"));
        found.extend(version.map(str::to_owned));
    }
    let known = HOSTS.map(|host| host.version).join(", ");
    match &found[..] {
        [] => bail!(
            "{} has no libCntk.Math-<version>.so: it is not CNTK's folder of libraries.",
            folder.display()
        ),
        [version] => HOSTS.into_iter().find(|host| host.version == version).ok_or_else(|| {
            anyhow::anyhow!(
                "{} belongs to CNTK {version}; there are modules for {known} only. Nothing was changed.",
                folder.display()
            )
        }),
        several => bail!("{} has libraries of several CNTKs: {}.", folder.display(), several.join(", ")),
    }
}

/// Installs.
pub fn install(_project: &Project, _libs: &Path) -> Result<()> {
    bail!("not yet")
}

/// Restores.
pub fn restore(_project: &Project, _libs: &Path) -> Result<()> {
    bail!("not yet")
}
