//! Training with a beta's BrainScript program, with CNTK's modules and with this project's: losses
//! are equal to the last digit, even after an interruption.

use crate::cntk_python::Paths;
use crate::install::Cntk;
use anyhow::{Result, ensure};
use std::fmt::Write;
use std::path::Path;
use tooling::Tally;
use tooling::project::{Project, empty_folder};

/// Configurations in oracle/brainscript.
const NETWORKS: [&str; 4] = ["plane", "digits", "words", "tags"];

/// Number of epochs of a whole run, and of an interrupted one.
const EPOCHS: [u32; 2] = [4, 2];

/// Trains each network on both sides, and prints the results.
pub fn compare(project: &Project, cntk: &Cntk, paths: Paths<'_>) -> Result<Tally> {
    let folder = project.target.join("xtask/brainscript");
    empty_folder(&folder)?;
    data(project, &folder)?;
    let mut tally = Tally::default();
    for network in NETWORKS {
        let train = |path: &str, epochs| train(project, cntk, &folder, network, path, epochs);
        let [whole, part] = EPOCHS;
        let theirs = train(paths.cntk, whole)?;
        forget(&folder)?;
        let ours = train(paths.ours, whole)?;
        forget(&folder)?;
        let begun = train(paths.ours, part)?;
        // With a finished model there would be nothing to do. Without it, the program continues
        // from the checkpoint before.
        std::fs::remove_file(folder.join("model").join(network).with_extension("dnn"))?;
        let ended = train(paths.ours, whole)?;
        forget(&folder)?;
        ensure!(theirs.len() == whole as usize, "CNTK has trained {} epochs of {network}.", theirs.len());
        let resumed = begun.len() + ended.len() >= theirs.len() && ended.len() < theirs.len();
        let same = ours == theirs && resumed && theirs.starts_with(&begun) && theirs.ends_with(&ended);
        tally.passed += usize::from(same);
        tally.failed += usize::from(!same);
        if !same {
            say!("{network}:\n  ours {ours:#?}\n  begun {begun:#?}\n  ended {ended:#?}\n  CNTK {theirs:#?}");
        }
    }
    say!(
        "      BrainScript's program of CNTK {}: {} networks with the same losses, whole and resumed, {} not",
        cntk.version(),
        tally.passed,
        tally.failed
    );
    Ok(tally)
}

/// Trains to the end of an epoch, continuing from a checkpoint if there is one. Returns the
/// program's report of each epoch, without times.
fn train(
    project: &Project,
    cntk: &Cntk,
    folder: &Path,
    network: &str,
    path: &str,
    epochs: u32,
) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(project.path(&format!("oracle/brainscript/{network}.cntk")))?;
    let text = text.replace("@DIR@", &folder.display().to_string()).replace("@EPOCHS@", &epochs.to_string());
    let config = folder.join(format!("{network}.cntk"));
    std::fs::write(&config, text)?;
    let run = project.run(&cntk.program().to_string_lossy()).arg(format!("configFile={}", config.display()));
    let run = run.env("LD_LIBRARY_PATH", path).env("OMP_NUM_THREADS", "1");
    let run = run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let log = run.go()?.replace(&format!(" of {epochs}]"), "]");
    let epochs =
        log.lines().filter_map(|line| Some(line.split_once("Finished ")?.1.split_once("; epochTime")?.0));
    Ok(epochs.map(str::to_owned).collect())
}

/// Removes models and checkpoints.
fn forget(folder: &Path) -> Result<()> {
    empty_folder(&folder.join("model"))
}

/// Generates points in a plane, digits, and sentences of numbered words, with labels per sentence
/// or per word.
fn data(project: &Project, folder: &Path) -> Result<()> {
    let mut state = 5u32;
    let mut random = |bound: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % bound
    };
    let (mut plane, mut words, mut tags) = (String::new(), String::new(), String::new());
    for _ in 0..4000 {
        let [x, y] = [0, 0].map(|_: i32| f64::from(random(4001)) / 1000.0 - 2.0);
        let outside = u32::from(x * x + y * y > 2.0);
        writeln!(plane, "|features {x} {y} |labels {} {outside}", 1 - outside)?;
    }
    for key in 0..600 {
        let length = 3 + random(12);
        let sentence: Vec<u32> = (0..length).map(|_| random(50)).collect();
        let class = sentence.iter().sum::<u32>() % 5;
        let mut last = 0;
        for (step, &word) in sentence.iter().enumerate() {
            let label = |class| (0..5).map(move |number| format!(" {}", u32::from(number == class)));
            let of_sentence =
                if step == 0 { format!(" |y{}", label(class).collect::<String>()) } else { String::new() };
            writeln!(words, "{key} |x {word}:1{of_sentence}")?;
            writeln!(tags, "{key} |x {word}:1 |y{}", label((last + word) % 5).collect::<String>())?;
            last = word;
        }
    }
    std::fs::write(folder.join("plane.ctf"), plane)?;
    std::fs::write(folder.join("words.ctf"), words)?;
    std::fs::write(folder.join("tags.ctf"), tags)?;
    std::fs::copy(project.path("examples/data/digits.train.ctf"), folder.join("digits.ctf"))?;
    Ok(())
}
