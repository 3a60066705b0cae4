//! Compares the committed ABI with the last release's.

use anyhow::{Result, bail};
use tooling::dist;
use tooling::project::Project;
use tooling::tools::{self, Tool};

/// The dump of the ABI of this commit, which the step `abi` compares with the header.
const DUMP: &str = "xtask/abi/libcntk_reader.abi";

/// The folder of the dumps of releases.
const RELEASED: &str = "xtask/abi/released";

/// Returns the file of a release's dump.
pub fn file(version: &str, abi: &str) -> String {
    format!("{RELEASED}/{version}+abi{abi}.abi")
}

/// Fails if the ABI number is that of the last release, and abidiff reports anything but additions,
/// unless a maintainer has reviewed the report. Returns the result as a sentence.
pub fn check(project: &Project, is_reviewed: bool) -> Result<String> {
    let abi = dist::abi(project)?;
    let mut releases = Vec::new();
    for entry in std::fs::read_dir(project.path(RELEASED)).into_iter().flatten() {
        let name = entry?.file_name().to_string_lossy().into_owned();
        releases.extend(release(&name).map(|(version, abi)| (version, abi, name)));
    }
    let Some((version, number, name)) = releases.into_iter().max() else {
        return Ok("there is none to compare with: this is the first release".to_owned());
    };
    let version = version.map(|part| part.to_string()).join(".");
    if number != abi {
        return Ok(format!("the ABI number was {number} in {version}, and is {abi}"));
    }
    tools::need(project, &[Tool::Abigail])?;
    let run = project.run("abidiff").args(["--no-architecture", "--no-added-syms"]);
    let run = run.arg(format!("{RELEASED}/{name}")).arg(DUMP);
    match run.go() {
        Ok(_) => Ok(format!("nothing but additions since {version}")),
        Err(report) if is_reviewed => Ok(format!("reviewed by a maintainer: {report:#}")),
        Err(report) => bail!(
            "The ABI number is still that of {version} ({abi}), and the ABI is not:\n{report:#}\n\
             Enumerators and members at the end of structs may be added: if there is nothing else, \
             repeat the command with --reviewed-abi. Anything else needs a new ABI number."
        ),
    }
}

/// Returns the version and the ABI number of a dump's file name, such as `0.1.0+abi1.abi`.
fn release(name: &str) -> Option<([u32; 3], String)> {
    let (version, abi) = name.strip_suffix(".abi")?.split_once("+abi")?;
    let parts: Vec<u32> = version.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    Some((parts.try_into().ok()?, abi.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_number() {
        let mut found: Vec<_> = ["0.9.0+abi1.abi", "0.10.0+abi2.abi", "notes.md", "0.1+abi1.abi"]
            .into_iter()
            .filter_map(release)
            .collect();
        found.sort();
        let expected = vec![([0, 9, 0], "1".to_owned()), ([0, 10, 0], "2".to_owned())];
        assert_eq!(found, expected);
        assert_eq!(
            release(file("1.2.3", "4").rsplit_once('/').expect("a folder").1),
            Some(([1, 2, 3], "4".to_owned()))
        );
    }
}
