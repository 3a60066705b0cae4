//! Runs targets for a given time, several in parallel.

use super::program::{Program, Target, clean_after};
use super::record::{self, Figures};
use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use tooling::project::{Project, empty_folder};

/// Settings for running targets.
pub struct Session {
    /// Time of each target.
    pub time: Duration,
    /// Number of targets that run in parallel.
    pub jobs: usize,
    /// The seed of libFuzzer; `None`: from the clock.
    pub seed: Option<u32>,
    /// The folder of the inputs found, with a folder for each target. If `None`, only failing
    /// inputs are kept.
    pub corpora: Option<PathBuf>,
}

impl Session {
    /// Runs the targets, and prints a line for each. Returns the number of failed targets.
    pub fn run(
        &self,
        project: &Project,
        program: &Program,
        targets: &[Target],
        indent: &str,
    ) -> Result<usize> {
        let next = AtomicUsize::new(0);
        let (sender, ended) = channel();
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.min(targets.len()) {
                let (next, sender) = (&next, sender.clone());
                scope.spawn(move || {
                    while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // The receiver lives until all threads have ended.
                        let _ = sender.send(self.run_one(project, program, target));
                    }
                });
            }
            drop(sender);
            // After an error the other targets continue; the first error is returned.
            let (mut failed, mut first_error) = (0, None);
            for result in ended {
                match result {
                    Ok((line, is_good)) => {
                        say!("{indent}{line}");
                        failed += usize::from(!is_good);
                    }
                    Err(error) => {
                        first_error.get_or_insert(error);
                    }
                }
            }
            first_error.map_or(Ok(failed), Err)
        })
    }

    /// Runs a target. Returns the line to print, and whether all inputs passed.
    fn run_one(&self, project: &Project, program: &Program, target: &Target) -> Result<(String, bool)> {
        let name = &target.name;
        let failures = project.target.join("fuzz/failures").join(name);
        let logs = project.target.join("fuzz/logs");
        for folder in [&failures, &logs] {
            std::fs::create_dir_all(folder)?;
        }
        let log_path = logs.join(format!("{name}.log"));
        let log = File::create(&log_path).with_context(|| log_path.display().to_string())?;
        let mut command = program.command(target, &failures);
        command.arg(format!("-max_total_time={}", self.time.as_secs().max(1))).arg("-print_final_stats=1");
        if let Some(seed) = self.seed {
            command.arg(format!("-seed={seed}"));
        }
        // libFuzzer adds new inputs to the first folder, which is never the corpus under version
        // control.
        let found = match &self.corpora {
            Some(corpora) => corpora.join(name),
            None => project.target.join("fuzz/forgotten").join(name),
        };
        match self.corpora {
            Some(_) => std::fs::create_dir_all(&found)?,
            None => empty_folder(&found)?,
        }
        command.arg(found);
        let committed = program.corpus(target);
        if committed.is_dir() {
            command.arg(committed);
        }
        let mut child =
            command.stdout(log.try_clone()?).stderr(log).spawn().context("starting the program")?;
        let seconds = processor_time(&child);
        let status = child.wait();
        clean_after(child.id());
        let seconds = seconds?.as_secs_f64();
        let output = String::from_utf8_lossy(&std::fs::read(&log_path)?).into_owned();
        let figures = Figures::of(&output, seconds);
        record::keep(project, name, &figures)?;
        let line = format!("{name:<14} {figures}");
        if status?.success() {
            return Ok((line, true));
        }
        let failed = output.lines().rev().find_map(|line| line.split_once("Test unit written to "));
        let again = match failed {
            Some((_, input)) => format!("Again: cargo xtask fuzz --target {name} --input {input}"),
            None => "The program ended without naming an input.".to_owned(),
        };
        Ok((format!("{line}\n{name:<14} FAILED: {}\n{again}", log_path.display()), false))
    }
}

/// Waits until a process ends, and returns its CPU time. Wall-clock time would depend on other
/// processes.
fn processor_time(child: &Child) -> Result<Duration> {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(child)), ended).context("waiting for the program")?;
    // A zombie keeps this file until it is reaped.
    let path = format!("/proc/{}/stat", child.id());
    let stat = std::fs::read_to_string(&path).context(path)?;
    ticks(&stat)
        .map(|ticks| Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
        .with_context(|| format!("no times in {stat}"))
}

/// Returns the user and system ticks of a process from `/proc/PID/stat`.
fn ticks(stat: &str) -> Option<u64> {
    // The second field is the program's name, which may contain blanks and brackets.
    let mut words = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut number = || words.next()?.parse::<u64>().ok();
    Some(number()? + number()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_add_user_and_system_time() {
        assert_eq!(ticks("7 (a) b) Z 1 2 3 4 5 6 7 8 9 10 40 2 0 0"), Some(42));
        assert_eq!(ticks("7 (a) Z 1 2"), None);
    }

    #[test]
    fn sleeping_takes_no_cpu_time() {
        let mut child = std::process::Command::new("sleep").arg("0.2").spawn().expect("a process");
        let time = processor_time(&child).expect("its time");
        assert!(time < Duration::from_millis(150), "{time:?}");
        assert!(child.wait().expect("its end").success());
    }
}
