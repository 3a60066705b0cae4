//! Corpora under version control: few and small inputs that reach the most.

use super::program::{LONGEST, Program, Target, clean_after};
use anyhow::{Context, Result, ensure};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tooling::project::{Project, empty_folder};

/// Most files of a target's corpus. All of them together take 4 MB of a disk that has blocks of 4
/// KB.
const MOST: usize = 34;

/// Replaces each corpus by the best of it and of what was found.
pub fn minimize(project: &Project, program: &Program, targets: &[Target], corpora: &Path) -> Result<()> {
    for target in targets {
        let folders = [program.corpus(target), corpora.join(&target.name)];
        let folders: Vec<PathBuf> = folders.into_iter().filter(|folder| folder.is_dir()).collect();
        let best = best(&merged(project, program, target, &folders)?);
        let contents: Vec<Vec<u8>> = best.iter().map(std::fs::read).collect::<Result<_, _>>()?;
        let corpus = program.corpus(target);
        empty_folder(&corpus)?;
        for (path, content) in best.iter().zip(&contents) {
            std::fs::write(corpus.join(path.file_name().context("a file's name")?), content)?;
        }
        let bytes: usize = contents.iter().map(Vec::len).sum();
        say!("{:<14} {} files, {bytes} bytes", target.name, best.len());
    }
    Ok(())
}

/// The fuzzer's own notes on a merge: what each file reaches.
fn merged(project: &Project, program: &Program, target: &Target, folders: &[PathBuf]) -> Result<String> {
    let scratch = project.target.join("fuzz/merge").join(&target.name);
    let notes = scratch.join("notes");
    empty_folder(&scratch)?;
    std::fs::create_dir(scratch.join("merged"))?;
    let mut command = program.command(target, &scratch);
    // As if to find the fewest files: then the notes have all that a file reaches. Else they leave
    // out what a smaller file reaches too.
    command.arg("-set_cover_merge=1").arg(format!("-merge_control_file={}", notes.display()));
    command.arg(scratch.join("merged")).args(folders).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let status = child.wait();
    clean_after(child.id());
    ensure!(status?.success(), "The inputs of '{}' could not be merged.", target.name);
    std::fs::read_to_string(&notes).with_context(|| notes.display().to_string())
}

/// A file, and what it reaches.
struct File {
    path: PathBuf,
    size: u64,
    /// Those that no better file reaches.
    features: Vec<u32>,
}

/// The files that reach the most: each one adds more to those before it than any other would.
fn best(notes: &str) -> Vec<PathBuf> {
    let mut files = files(notes);
    files.retain(|file| file.size <= LONGEST);
    let mut best = Vec::new();
    while best.len() < MOST {
        let gains = files.iter().map(|file| (file.features.len(), Reverse(file.size))).enumerate();
        let Some((number, (1.., _))) = gains.max_by_key(|&(_, gain)| gain) else { break };
        let taken = files.swap_remove(number);
        let reached: HashSet<u32> = taken.features.into_iter().collect();
        files.iter_mut().for_each(|file| file.features.retain(|feature| !reached.contains(feature)));
        best.push(taken.path);
    }
    best
}

/// The notes have the number of files, that of the files of the first folder, the paths, and for
/// each file lines with its number: `STARTED number size` and `FT number features`.
fn files(notes: &str) -> Vec<File> {
    let mut lines = notes.lines();
    let count: usize = lines.next().and_then(|count| count.parse().ok()).unwrap_or(0);
    let mut files: Vec<File> = lines
        .by_ref()
        .skip(1)
        .take(count)
        .map(|path| File { path: path.into(), size: 0, features: Vec::new() })
        .collect();
    for line in lines {
        let mut words = line.split(' ');
        let (what, mut numbers) = (words.next(), words.filter_map(|word| word.parse::<u32>().ok()));
        let Some(file) = numbers.next().and_then(|number| files.get_mut(number as usize)) else { continue };
        match what {
            Some("STARTED") => file.size = numbers.next().unwrap_or(u32::MAX).into(),
            Some("FT") => file.features = numbers.collect(),
            _ => {}
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_reach_the_most_are_kept() {
        let notes = "4\n0\na\nb\nc\nd\nSTARTED 0 9\nFT 0 1 2\nCOV 0 1\nSTARTED 1 8\nFT 1 1 2\nCOV 1\nSTARTED 2 7\nFT 2 3\nCOV 2\n\
                     STARTED 3 30000\nFT 3 1 2 3 4\n";
        assert_eq!(best(notes), [PathBuf::from("b"), PathBuf::from("c")]);
    }
}
