//! Files written by the library, its converters and a training loop, with every fault, and killed
//! at every call.

use crate::calls::{self, Fault, Plan};
use crate::common::child;
use crate::common::rng::Rng;
use crate::common::seen::{self, Seen};
use crate::data;
use crate::every_call::{self, FAULTS, Place, Report};
use crate::watchdog::Watchdog;
use cntk_reader::language::from_text;
use cntk_reader::{Error, Result};
use cntk_reader_core::stream::ElementType;
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use cntk_reader_tools::convert::{
    ConvertOptions, Data, Format, TextToBinary, convert, parse_streams, text_to_binary,
};
use cntk_reader_tools::files::compress;
use cntk_reader_tools::speech::{self, SpeechConversion};
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Something that writes files.
struct Task {
    name: &'static str,
    /// The kind of its input data.
    kind: &'static str,
    run: fn(&Path, &str) -> Result<()>,
    /// Whether reading continues if nothing can be written, so that a fault of writing is not an
    /// error.
    is_optional: bool,
}

const fn task(name: &'static str, kind: &'static str, run: fn(&Path, &str) -> Result<()>) -> Task {
    Task { name, kind, run, is_optional: false }
}

const TASKS: &[Task] = &[
    Task { is_optional: true, ..task("index cache of text", "text, cache written", read_all) },
    Task { is_optional: true, ..task("index cache of labels", "HTK features and labels", read_all) },
    task("cache folder, gzip", "gzip", read_all),
    task("cache folder, zstd", "zstd of unknown size", read_all),
    task("text to binary", "text in order", |folder, _| {
        let options = TextToBinary {
            input: path(folder, "a.ctf"),
            output: path(folder, "out.cbf"),
            streams: parse_streams("x x dense 2\nsx sx sparse 10").expect("streams"),
            chunk_size: 500,
            element: ElementType::Float,
            ctf2bin_compatible: false,
        };
        text_to_binary(&options, &mut |_| ControlFlow::Continue(())).map(drop)
    }),
    task("reader to text", "binary", |folder, config| {
        let data = Data::of_reader(cntk_reader::Reader::builder().config_text(config)?)?;
        let (output, options) = (path(folder, "out.ctf"), ConvertOptions::default());
        convert(data, Format::Text, &output, &options, &mut |_| ControlFlow::Continue(())).map(drop)
    }),
    task("compression", "text in order", |folder, _| {
        let [input, output] = ["a.ctf", "out.ctf.zst"].map(|name| path(folder, name));
        compress(&input, &output, &mut |_| ControlFlow::Continue(())).map(drop)
    }),
    task("HTK to Kaldi", "HTK features and labels", |folder, _| {
        let features = SpeechConversion {
            input: path(folder, "f.scp"),
            output: path(folder, "out.ark"),
            script: Some(path(folder, "out.scp")),
            ..SpeechConversion::default()
        };
        speech::htk_to_kaldi(&features, &mut |_| ControlFlow::Continue(())).map(drop)
    }),
];

/// A training loop. Its own writing is not the library's concern, so it is only killed and has no
/// other faults.
const TRAINING: Task = task("checkpoints of a training loop", "text, cache written", train);

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().expect("a path").to_owned()
}

fn read_all(_: &Path, config: &str) -> Result<()> {
    let mut reader = Reader::open(&from_text(config)?)?;
    reader.start_epoch(&Epoch::sweeps(1).read_config(ReadConfig::new(10)))?;
    while !seen::read(&mut reader)?.is_end() {}
    Ok(())
}

/// Trains for two sweeps, and saves its state after each minibatch as shown in the guide: it writes
/// a temporary file and renames it. Instead of weights it learns a checksum of all minibatches.
fn train(folder: &Path, config: &str) -> Result<()> {
    let state = folder.join("out.state");
    let mut reader = Reader::open(&from_text(config)?)?;
    let mut learned = 0;
    match calls::exempt(|| fs::read(&state)) {
        Ok(saved) => {
            let (weights, position) = saved.split_first_chunk().expect("a whole state");
            learned = u64::from_le_bytes(*weights);
            reader.restore(position)?;
        }
        Err(_) => reader.start_epoch(&Epoch::sweeps(2).read_config(ReadConfig::new(10)))?,
    }
    let failed = |cause| Error::io("Error writing file", &state.to_string_lossy(), &cause);
    loop {
        let minibatch: Seen = seen::read(&mut reader)?;
        if minibatch.is_end() {
            return Ok(());
        }
        learned =
            minibatch.digest().bytes().fold(learned, |sum, byte| Rng::new(sum ^ u64::from(byte)).bits());
        let saved = [&learned.to_le_bytes()[..], &reader.checkpoint()?].concat();
        let new = state.with_extension("new");
        fs::write(&new, saved).and_then(|()| fs::rename(new, &state)).map_err(failed)?;
    }
}

/// Returns the files that a task has written, by name.
fn outputs(place: &Place) -> BTreeMap<String, Vec<u8>> {
    calls::exempt(|| {
        let folders = [place.path("data"), place.path("cache")];
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let named = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
        let is_output = |name: &str, path: &Path| {
            let is_temporary = [".tmp", ".new", ".part"].iter().any(|ending| name.ends_with(ending));
            let is_cached = path.starts_with(place.path("cache")) && !name.ends_with(".sum");
            !is_temporary && (is_cached || name.starts_with("out.") || name.ends_with(".cache"))
        };
        let outputs = named.filter(|(name, path)| is_output(name, path));
        outputs.map(|(name, path)| (name, fs::read(path).expect("an output"))).collect()
    })
}

fn remove_outputs(place: &Place) {
    place.forget();
    let entries = fs::read_dir(place.path("data")).expect("the folder").flatten();
    let outputs = entries
        .filter(|entry| entry.file_name().to_string_lossy().trim_start_matches('.').starts_with("out."));
    calls::exempt(|| outputs.for_each(|entry| fs::remove_file(entry.path()).expect("removing")));
}

/// The results of an undisturbed task.
struct Undisturbed {
    config: String,
    outputs: BTreeMap<String, Vec<u8>>,
    counts: calls::Counts,
}

fn undisturbed(task: &Task, place: &Place) -> Undisturbed {
    let kind = data::ALL.iter().find(|kind| kind.name == task.kind).expect("a kind of data");
    let config = data::prepare(kind, &place.path("data"), 0);
    calls::begin(place.root(), None);
    (task.run)(&place.path("data"), &config).expect(task.name);
    let counts = calls::end();
    let outputs = outputs(place);
    assert!(!outputs.is_empty(), "{}: nothing is written", task.name);
    Undisturbed { config, outputs, counts }
}

impl Undisturbed {
    /// Checks that every output is correct; with `all`, also that none is missing.
    fn check(&self, place: &Place, all: bool) -> std::result::Result<(), String> {
        let found = outputs(place);
        for (name, content) in &found {
            if self.outputs.get(name) != Some(content) {
                return Err(format!(
                    "'{name}' has {} bytes that are not those of an undisturbed run",
                    content.len()
                ));
            }
        }
        match self.outputs.keys().find(|name| all && !found.contains_key(*name)) {
            Some(name) => Err(format!("'{name}' is missing")),
            None => Ok(()),
        }
    }
}

/// Injects all faults into all calls of all tasks, also on a file system without nameless files,
/// but only every `stride`-th combination.
pub fn faults(stride: usize, report: &mut Report, watchdog: &Watchdog) {
    for is_named in [false, true] {
        calls::refuse_nameless(is_named);
        TASKS.iter().for_each(|task| faults_of(task, is_named, stride, report, watchdog));
    }
    calls::refuse_nameless(false);
}

fn faults_of(task: &Task, is_named: bool, stride: usize, report: &mut Report, watchdog: &Watchdog) {
    let place = Place::new();
    let undisturbed = undisturbed(task, &place);
    let counts = &undisturbed.counts;
    let all = FAULTS.iter().flat_map(|&(name, fault, count)| {
        (0..counts.fitting(fault)).map(move |first| (name, Plan { fault, first, count }))
    });
    for (name, plan) in all.step_by(stride) {
        let named = if is_named { ", no files without names" } else { "" };
        let what = format!("{}{named}: {name} at call {}", task.name, plan.first);
        watchdog.at(0, &what);
        remove_outputs(&place);
        calls::begin(place.root(), Some(plan));
        let result = (task.run)(&place.path("data"), &undisturbed.config);
        let injected = calls::end().injected;
        report.count(name, injected.len(), usize::from(result.is_err()));
        let must_pass = every_call::must_pass(plan.fault, plan.count, &injected);
        let outcome = match &result {
            Ok(()) => undisturbed.check(&place, !task.is_optional || must_pass),
            Err(error) if must_pass => Err(format!("an error although the call can be repeated: {error}")),
            Err(error) => {
                every_call::check_error(error, place.root()).and_then(|()| undisturbed.check(&place, false))
            }
        };
        let outcome = outcome.and_then(|()| match place.leftovers() {
            left if left.is_empty() || plan.count > 1 => Ok(()),
            left => Err(format!("{left:?} are left")),
        });
        // Without the fault the task always succeeds.
        let again = || {
            (task.run)(&place.path("data"), &undisturbed.config)
                .map_err(|error| format!("an error after the fault: {error}"))
                .and_then(|()| undisturbed.check(&place, true))
        };
        let outcome = outcome.and_then(|()| again());
        report.fail(outcome.err().map(|failure| format!("{what}, {injected:?}: {failure}")));
    }
}

/// The environment of a child: the number of the task, and the call at which it is killed; unset if
/// it is killed from outside.
const TASK: &str = "CNTK_READER_TEST_TASK";
const CALL: &str = "CNTK_READER_TEST_CALL";
/// Set if the file system has no files without names.
const NAMED: &str = "CNTK_READER_TEST_NAMED";

fn killed_tasks() -> impl Iterator<Item = &'static Task> {
    TASKS.iter().chain([&TRAINING])
}

/// The program of a child: repeats the task until it is killed.
pub fn child_writes() {
    let Some(folder) = child::directory() else { return };
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let Some(task) = number(TASK).and_then(|number| killed_tasks().nth(number)) else { return };
    let config = fs::read_to_string(folder.join("config")).expect("a configuration");
    let place = Place::at(&folder);
    let plan = number(CALL).map(|first| Plan { fault: Fault::Kill, first, count: 1 });
    calls::refuse_nameless(std::env::var_os(NAMED).is_some());
    calls::begin(&folder, plan);
    loop {
        (task.run)(&folder.join("data"), &config).expect(task.name);
        if plan.is_some() {
            return;
        }
        remove_outputs(&place);
    }
}

/// Results of killed processes.
#[derive(Default)]
struct Killed {
    processes: usize,
    /// Temporary files after the kills, and after the next runs.
    left: usize,
    left_after: usize,
}

/// Kills processes that write: half of them at a call, which has written half of its bytes, the
/// others at any moment; half of them on a file system without nameless files.
pub fn kills(total: usize, watchdog: &Watchdog) {
    let rng = &mut Rng::new(std::process::id().into());
    let tasks = killed_tasks().count();
    let mut all = Killed::default();
    for (number, task) in killed_tasks().enumerate() {
        let mut killed = Killed::default();
        let kills = total / tasks + usize::from(number < total % tasks);
        for (is_named, kills) in [(false, kills.div_ceil(2)), (true, kills / 2)] {
            calls::refuse_nameless(is_named);
            let place = Place::new();
            let undisturbed = undisturbed(task, &place);
            fs::write(place.path("config"), &undisturbed.config).expect("writing");
            for kill in 0..kills {
                let calls = undisturbed.counts.fitting(Fault::Kill);
                let call = (kill % 2 == 0).then(|| rng.below(calls));
                let when = call.map_or("at any moment".into(), |call| format!("at call {call}"));
                let what = format!("{}, killed {when}", task.name);
                watchdog.at(0, &what);
                remove_outputs(&place);
                let mut command = child::this_program();
                command.args(["--exact", "child_writes", "--nocapture", "--test-threads=1"]);
                command.env(child::DIRECTORY, place.root()).env(TASK, number.to_string());
                command.envs(call.map(|call| (CALL, call.to_string())));
                command.envs(is_named.then_some((NAMED, "1")));
                kill_child(&mut command, call.is_none().then(|| Duration::from_micros(rng.range(0, 60_000))));
                killed.processes += 1;
                killed.left += place.leftovers().len();
                // Every file with its final name is complete; the state of training belongs to some
                // minibatch.
                if task.name != TRAINING.name {
                    undisturbed.check(&place, false).unwrap_or_else(|torn| panic!("{what}: {torn}"));
                }
                let next = (task.run)(&place.path("data"), &undisturbed.config);
                next.unwrap_or_else(|error| panic!("{what}: the next run fails: {error}"));
                undisturbed
                    .check(&place, true)
                    .unwrap_or_else(|other| panic!("{what}: the next run: {other}"));
                killed.left_after += place.leftovers().len();
            }
        }
        let Killed { processes, left, left_after } = killed;
        println!(
            "killed: {}: {processes}, {left} temporary files left, {left_after} after the next run",
            task.name
        );
        all.processes += processes;
        all.left += left;
        all.left_after += left_after;
    }
    calls::refuse_nameless(false);
    let Killed { processes, left, left_after } = all;
    println!(
        "figures: {processes} processes killed while they wrote: no file torn, all runs continued; {left} temporary files left, \
         {left_after} after the next run"
    );
}

/// Runs a child until it is killed, by itself or after a pause.
fn kill_child(command: &mut Command, pause: Option<Duration>) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a child");
    if let Some(pause) = pause {
        calls::exempt(|| std::thread::sleep(pause));
        child.kill().expect("killing");
    }
    let status = child.wait().expect("a child");
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
}
