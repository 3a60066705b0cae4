//! A composite module, CNTK's own or this project's, in the driver `host_replay`.

use crate::subject::{Results, Subject, alternate, bound};
use anyhow::Result;
use oracle::install::Cntk;
use std::path::{Path, PathBuf};
use tooling::project::Project;

/// Whose module is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module {
    /// CNTK's own, with CNTK's deserializers below it.
    Cntk,
    /// This project's.
    Own,
}

/// The driver, and both modules for it.
pub struct Hosts {
    root: PathBuf,
    driver: PathBuf,
    library_path: String,
    version: String,
    cntk: PathBuf,
    own: PathBuf,
    scripts: PathBuf,
}

/// What is done with the data.
pub struct Work<'a> {
    /// The reader configuration.
    pub config: &'a Path,
    /// The script of steps.
    pub script: &'a Path,
    /// CPUs that the process may use; this project's module has as many loading threads.
    pub cpus: usize,
}

/// How much is read, from the data's start.
pub struct Read<'a> {
    /// Minibatch size in samples.
    pub minibatch: u64,
    /// Steps of a truncated minibatch, or 0.
    pub truncation: u64,
    /// The epoch's samples, or `inf`.
    pub samples: &'a str,
    /// The epoch's sweeps, or `inf`.
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

    /// A script that reads, by the step `bench` or `digest`.
    pub fn script(&self, read: &Read<'_>, step: &str) -> Result<PathBuf> {
        let Read { minibatch, truncation, samples, sweeps } = read;
        let path = self.scripts.join(format!("{step}-{minibatch}-{truncation}-{samples}-{sweeps}.script"));
        std::fs::write(
            &path,
            format!("start 1 0 {minibatch} {truncation} 0 1 {samples} {sweeps} 0\n{step}\n"),
        )?;
        Ok(path)
    }

    /// A script that only asks for the time and the memory that opening took.
    pub fn script_of_opening(&self) -> Result<PathBuf> {
        let path = self.scripts.join("opening.script");
        std::fs::write(&path, "opening\n")?;
        Ok(path)
    }

    /// A module at some work.
    pub fn subject(&self, module: Module, work: &Work<'_>) -> Subject {
        let (name, path) = match module {
            Module::Cntk => (format!("CNTK {}", self.version), &self.cntk),
            Module::Own => ("cntk-reader".to_owned(), &self.own),
        };
        let (root, library_path) = (self.root.clone(), self.library_path.clone());
        let (cpus, threads) = (work.cpus, work.cpus.to_string());
        let driver = self.driver.to_string_lossy().into_owned();
        let arguments = [path, work.config, work.script].map(Path::to_owned);
        Subject::new(name, move || {
            let run = bound(&driver, &root, cpus).args(&arguments).env("LD_LIBRARY_PATH", &library_path);
            run.env("OMP_NUM_THREADS", &threads).env("CNTK_READER_THREADS", &threads)
        })
    }

    /// Both modules at some work, CNTK's first.
    pub fn both(&self, work: &Work<'_>) -> [Subject; 2] {
        [Module::Cntk, Module::Own].map(|module| self.subject(module, work))
    }

    /// What both modules measured while they read, CNTK's first. Before, they read in runs that are
    /// not timed, and fail unless they delivered the same minibatches.
    pub fn compare(
        &self,
        project: &Project,
        what: &str,
        config: &Path,
        read: &Read<'_>,
        cpus: usize,
        repetitions: usize,
    ) -> Result<Vec<Results>> {
        let what = format!("{what}, {cpus} CPU{}", if cpus == 1 { "" } else { "s" });
        let subjects = |step| -> Result<[Subject; 2]> {
            let script = self.script(read, step)?;
            Ok(self.both(&Work { config, script: &script, cpus }))
        };
        alternate(project, &format!("{what}, the same bits"), &subjects("digest")?, 1, &["/digest"])?;
        alternate(project, &what, &subjects("bench")?, repetitions, &["/minibatches", "/samples"])
    }
}
