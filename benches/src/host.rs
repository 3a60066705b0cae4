//! Runs a composite module, CNTK's own or this project's, in the driver `host_replay`.

use crate::subject::{Results, Subject, alternate, bound};
use anyhow::Result;
use oracle::install::Cntk;
use std::path::{Path, PathBuf};
use tooling::project::Project;

/// The module to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module {
    /// CNTK's own, with CNTK's deserializers.
    Cntk,
    /// This project's.
    Own,
}

/// The driver and both modules.
pub struct Hosts {
    root: PathBuf,
    driver: PathBuf,
    library_path: String,
    version: String,
    cntk: PathBuf,
    own: PathBuf,
    scripts: PathBuf,
}

/// A task of the driver.
pub struct HostTask<'a> {
    /// The reader configuration.
    pub config: &'a Path,
    /// The script of steps.
    pub script: &'a Path,
    /// CPUs of the process, and loading threads of this project's module.
    pub cpus: usize,
}

/// How the data are read, from their start.
pub struct ReadPlan<'a> {
    /// Minibatch size in samples.
    pub minibatch: u64,
    /// Steps of a truncated minibatch, or 0 for whole sequences.
    pub truncation: u64,
    /// Samples of the epoch, or `inf`.
    pub samples: &'a str,
    /// Sweeps of the epoch, or `inf`.
    pub sweeps: &'a str,
}

impl Hosts {
    /// Builds the driver and this project's module.
    pub fn new(project: &Project, cntk: &Cntk, scripts: PathBuf) -> Result<Hosts> {
        let version = cntk.version();
        let engine = dropin::engine(project)?;
        let driver = project.part(&format!("the driver and the modules for CNTK {version}"), || {
            dropin::build(project, cntk.host, &engine)?;
            dropin::driver(project, "host_replay", cntk.host)
        })?;
        Ok(Hosts {
            root: project.root.clone(),
            driver,
            library_path: cntk.library_path(),
            version: version.to_owned(),
            cntk: cntk.module(),
            own: dropin::composite(project, cntk.host),
            scripts,
        })
    }

    /// Writes a script that reads by the step `bench` or `digest`.
    pub fn script(&self, read: &ReadPlan<'_>, step: &str) -> Result<PathBuf> {
        let ReadPlan { minibatch, truncation, samples, sweeps } = read;
        let path = self.scripts.join(format!("{step}-{minibatch}-{truncation}-{samples}-{sweeps}.script"));
        std::fs::write(
            &path,
            format!("start 1 0 {minibatch} {truncation} 0 1 {samples} {sweeps} 0\n{step}\n"),
        )?;
        Ok(path)
    }

    /// Writes a script that only reports the time and memory of opening.
    pub fn script_of_opening(&self) -> Result<PathBuf> {
        let path = self.scripts.join("opening.script");
        std::fs::write(&path, "opening\n")?;
        Ok(path)
    }

    /// Returns the subject that runs a module.
    pub fn subject(&self, module: Module, task: &HostTask<'_>) -> Subject {
        let (name, path) = match module {
            Module::Cntk => (format!("CNTK {}", self.version), &self.cntk),
            Module::Own => ("cntk-reader".to_owned(), &self.own),
        };
        let (root, library_path) = (self.root.clone(), self.library_path.clone());
        let (cpus, threads) = (task.cpus, task.cpus.to_string());
        let driver = self.driver.to_string_lossy().into_owned();
        let arguments = [path, task.config, task.script].map(Path::to_owned);
        Subject::new(name, move || {
            let run = bound(&driver, &root, cpus).args(&arguments).env("LD_LIBRARY_PATH", &library_path);
            run.env("OMP_NUM_THREADS", &threads).env("CNTK_READER_THREADS", &threads)
        })
    }

    /// Returns the subjects that run both modules, CNTK's first.
    pub fn both(&self, task: &HostTask<'_>) -> [Subject; 2] {
        [Module::Cntk, Module::Own].map(|module| self.subject(module, task))
    }

    /// Measures both modules, CNTK's first. Fails unless both deliver the same minibatches in runs
    /// that are not timed.
    pub fn compare(
        &self,
        project: &Project,
        what: &str,
        config: &Path,
        read: &ReadPlan<'_>,
        cpus: usize,
        repetitions: usize,
    ) -> Result<Vec<Results>> {
        let what = format!("{what}, {cpus} CPU{}", if cpus == 1 { "" } else { "s" });
        let subjects = |step| -> Result<[Subject; 2]> {
            let script = self.script(read, step)?;
            Ok(self.both(&HostTask { config, script: &script, cpus }))
        };
        alternate(project, &format!("{what}, the same bits"), &subjects("digest")?, 1, &["/digest"])?;
        alternate(project, &what, &subjects("bench")?, repetitions, &["/minibatches", "/samples"])
    }
}
