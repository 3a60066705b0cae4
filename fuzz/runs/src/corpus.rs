//! Corpora under version control: a few small inputs that reach most edges, and inputs that failed
//! once.

use super::program::{LONGEST, Program, Target, clean_after};
use anyhow::{Context, Result, ensure};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tooling::project::{Project, empty_folder};

/// A file is taken if it adds at least one in this many of the edges that all inputs of a target
/// reach. This gives about six files per target, and a second `--minimize` selects the same files.
const LEAST: usize = 60;

/// The prefix of the names of inputs that failed once. They are always kept.
const FAILED: &str = "failed-";

/// Replaces each corpus by the best of its files and of the inputs found.
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

/// Returns libFuzzer's control file of a merge, which lists the features of each file.
fn merged(project: &Project, program: &Program, target: &Target, folders: &[PathBuf]) -> Result<String> {
    let scratch = project.target.join("fuzz/merge").join(&target.name);
    let notes = scratch.join("notes");
    empty_folder(&scratch)?;
    std::fs::create_dir(scratch.join("merged"))?;
    let mut command = program.command(target, &scratch);
    // In set-cover mode, the control file lists all features of a file. Otherwise it omits those
    // that a smaller file has, too.
    command.arg("-set_cover_merge=1").arg(format!("-merge_control_file={}", notes.display()));
    command.arg(scratch.join("merged")).args(folders).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let status = child.wait();
    clean_after(child.id());
    ensure!(status?.success(), "The inputs of '{}' could not be merged.", target.name);
    std::fs::read_to_string(&notes).with_context(|| notes.display().to_string())
}

/// A file, with the edges and features that no better file reaches.
struct File {
    path: PathBuf,
    size: u64,
    /// Edges of the control-flow graph.
    edges: BTreeSet<u32>,
    /// Features: an edge together with a range of execution counts.
    features: BTreeSet<u32>,
}

impl File {
    fn has_failed(&self) -> bool {
        self.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FAILED))
    }
}

/// Returns the files that failed, and then a greedy selection: each file adds more edges than any
/// remaining one, or as many edges and more features.
fn best(notes: &str) -> Vec<PathBuf> {
    let mut files = files(notes);
    files.retain(|file| file.has_failed() || file.size <= LONGEST);
    let edges: BTreeSet<u32> = files.iter().flat_map(|file| &file.edges).copied().collect();
    let mut best = Vec::new();
    loop {
        let gain =
            |file: &File| (file.has_failed(), file.edges.len(), file.features.len(), Reverse(file.size));
        let gains = files.iter().map(gain).enumerate();
        let Some((number, (has_failed, added, ..))) = gains.max_by_key(|&(_, gain)| gain) else { break };
        if !has_failed && (added == 0 || added * LEAST < edges.len()) {
            break;
        }
        let taken = files.swap_remove(number);
        for file in &mut files {
            file.edges.retain(|edge| !taken.edges.contains(edge));
            file.features.retain(|feature| !taken.features.contains(feature));
        }
        best.push(taken.path);
    }
    best
}

/// Parses the control file: the number of files, the number of files in the first folder, the
/// paths, and for each file lines with its number, `STARTED number size` and `FT number features`.
/// An edge has eight features, one for each range of execution counts.
fn files(notes: &str) -> Vec<File> {
    let mut lines = notes.lines();
    let count: usize = lines.next().and_then(|count| count.parse().ok()).unwrap_or(0);
    let mut files: Vec<File> = lines
        .by_ref()
        .skip(1)
        .take(count)
        .map(|path| File { path: path.into(), size: 0, edges: BTreeSet::new(), features: BTreeSet::new() })
        .collect();
    for line in lines {
        let mut words = line.split(' ');
        let (what, mut numbers) = (words.next(), words.filter_map(|word| word.parse::<u32>().ok()));
        let Some(file) = numbers.next().and_then(|number| files.get_mut(number as usize)) else { continue };
        match what {
            Some("STARTED") => file.size = numbers.next().unwrap_or(u32::MAX).into(),
            Some("FT") => {
                file.features = numbers.collect();
                file.edges = file.features.iter().map(|feature| feature / 8).collect();
            }
            _ => {}
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_most_coverage_are_kept() {
        let notes = "4\n0\na\nb\nc\nd\nSTARTED 0 9\nFT 0 8 16\nCOV 0 1\nSTARTED 1 8\nFT 1 8 16\nCOV 1\nSTARTED 2 7\nFT 2 24\n\
                     COV 2\nSTARTED 3 30000\nFT 3 8 16 24 32\n";
        assert_eq!(best(notes), [PathBuf::from("b"), PathBuf::from("c")]);
    }

    #[test]
    fn edges_count_before_features() {
        let notes = "2\n0\na\nb\nSTARTED 0 1\nFT 0 8 9 10 11\nSTARTED 1 2\nFT 1 8 16\n";
        assert_eq!(best(notes), [PathBuf::from("b")]);
    }

    #[test]
    fn files_that_add_little_are_left_out() {
        // There are 2 * LEAST + 2 edges: the first file reaches all but four, the others reach
        // three and one.
        let edges: Vec<String> = (0..2 * LEAST - 2).map(|edge| (8 * edge).to_string()).collect();
        let notes = format!("3\n0\na\nb\nc\nFT 0 {}\nFT 1 8000 8008 8016\nFT 2 8024\n", edges.join(" "));
        assert_eq!(best(&notes), ["a", "b"].map(PathBuf::from));
    }

    #[test]
    fn failed_files_are_kept() {
        let notes =
            "3\n0\na\nx/failed-b\nx/failed-c\nSTARTED 0 1\nFT 0 8 16\nSTARTED 1 1\nFT 1 8\nSTARTED 2 30000\n";
        assert_eq!(best(notes), ["x/failed-b", "x/failed-c", "a"].map(PathBuf::from));
    }
}
