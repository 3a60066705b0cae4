//! Measures this library beside JPEG decoders and PyTorch's DataLoader with torchvision.

use super::MINIBATCH;
use super::corpus::{Corpus, Pipeline};
use crate::comparison::Goal;
use crate::options::Options;
use crate::peers::{last_line, version};
use crate::subject::{Results, Subject, alternate, bound};
use crate::table::{Table, number};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::PathBuf;
use tooling::project::Project;

/// Packages that pip installs, about 5 GB: PyTorch depends on libraries for GPUs, which are not
/// used.
const PACKAGES: [&str; 5] = ["numpy", "pillow", "simplejpeg", "torch", "torchvision"];

/// Worker processes of the DataLoader.
const PROCESSES: usize = 2;

/// Sweeps of this library. The last one is timed and its allocations are counted.
const SWEEPS: usize = 3;

/// Describes the tables.
pub const NOTE: &str = "\
The same images by other libraries, from the page cache, bound to as many CPUs as they have threads or processes; medians of runs in
turn. `decoder` reads and decodes each file, and drops the pixels: this library's own decoder; simplejpeg, a thin layer over
libjpeg-turbo; and Pillow. By weighted sums they have decoded the same pixels as `cntk-reader`. `DataLoader` is PyTorch's, with random
crops, scaling, mirroring and the mean by torchvision: of Pillow's images, or of tensors, which torchvision decodes; processes exist
before the time begins. `bytes`: without the mean, which a model on a GPU subtracts; the pixels stay `uint8`. Their crops are drawn by
other rules from the same ranges, so only the number and the shape of the images were checked. cntk-reader's third sweep is timed,
from Rust.";

/// The folder of the Python environment.
fn folder(project: &Project) -> PathBuf {
    project.target.join("image-peers")
}

/// Whether the libraries are installed.
pub fn are_installed(project: &Project) -> bool {
    folder(project).join("ready").exists()
}

/// Installs the libraries if necessary; returns the reason if that fails.
pub fn install(project: &Project) -> Result<Option<String>> {
    crate::peers::install(project, &folder(project), &PACKAGES)
}

/// A reader or decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// This library.
    Own,
    /// Only the decoder of this library.
    Decoder,
    /// A library in `image_peers.py`.
    Peer(&'static str),
}

/// The measurements of a reader with a number of threads.
struct Speed {
    reader: Reader,
    threads: usize,
    /// Images a second.
    rate: f64,
    /// Allocations for each image, for this library only.
    allocations: Option<f64>,
}

/// Measures this library and all others; returns their speeds, and the ratios with goals.
pub fn measure(
    project: &Project,
    options: &Options,
    cpus: &[usize],
    corpus: &Corpus,
) -> Result<(Table, Table)> {
    let mut speeds = Table::new(2, &["images", "library", "threads", "images/s", "ms an image"]);
    let mut ratios = Table::new(1, &["what", "CPUs", "measured", "goal"]);
    let (dataloader, tensors) = (Reader::Peer("dataloader"), Reader::Peer("dataloader-tensors"));
    let bytes = Reader::Peer("dataloader-bytes");
    let (simplejpeg, pillow) = (Reader::Peer("simplejpeg"), Reader::Peer("pillow"));
    let all = |readers: &[Reader]| -> Vec<(Reader, usize)> {
        readers.iter().flat_map(|&reader| cpus.iter().map(move |&cpus| (reader, cpus))).collect()
    };

    let mut readers = all(&[Reader::Own]);
    readers.extend([(dataloader, PROCESSES), (tensors, PROCESSES)]);
    let crops = compare(project, options, corpus, Pipeline::Crops, &readers, &mut speeds)?;
    let mut readers = all(&[Reader::Own]);
    readers.push((bytes, PROCESSES));
    let crops_of_bytes = compare(project, options, corpus, Pipeline::Bytes, &readers, &mut speeds)?;
    let readers = all(&[Reader::Own, Reader::Decoder, simplejpeg, pillow]);
    let whole = compare(project, options, corpus, Pipeline::Whole, &readers, &mut speeds)?;

    let mut add = |what: &str, cpus: usize, shown: String, goal: String| {
        ratios.add(vec![what.to_owned(), cpus.to_string(), shown, goal]);
    };
    for (peer, what) in [(dataloader, "Pillow's images"), (tensors, "tensors")] {
        if let (Some(own), Some(other)) =
            (find(&crops, Reader::Own, PROCESSES), find(&crops, peer, PROCESSES))
        {
            let times = own.rate / other.rate;
            let what = format!("random crops: times the DataLoader of {what}");
            add(&what, PROCESSES, number(times), Goal::times(2.0).show(times, 0.0, true));
        }
    }
    let of_bytes = |reader| find(&crops_of_bytes, reader, PROCESSES);
    if let (Some(own), Some(other)) = (of_bytes(Reader::Own), of_bytes(bytes)) {
        let times = own.rate / other.rate;
        let what = "random crops, bytes: times the DataLoader of tensors".to_owned();
        add(&what, PROCESSES, number(times), Goal::times(2.0).show(times, 0.0, true));
    }
    if let (Some(bytes), Some(floats)) = (of_bytes(Reader::Own), find(&crops, Reader::Own, PROCESSES)) {
        let times = bytes.rate / floats.rate;
        let what = "random crops: bytes, times floats less a mean";
        add(what, PROCESSES, number(times), Goal::times(1.0).show(times, 0.0, true));
    }
    if let (Some(one), Some(two)) = (find(&crops, Reader::Own, 1), find(&crops, Reader::Own, 2)) {
        let times = two.rate / one.rate;
        add("random crops: times one thread", 2, number(times), Goal::times(1.9).show(times, 0.0, true));
    }
    for (decoder, what) in [(Reader::Decoder, "its own decoder"), (simplejpeg, "simplejpeg")] {
        for &cpus in cpus {
            if let (Some(own), Some(other)) = (find(&whole, Reader::Own, cpus), find(&whole, decoder, cpus)) {
                let percent = 100.0 * own.rate / other.rate;
                let goal = Goal::own(90.0, "%").show(1.0, percent, true);
                add(&format!("whole images: of {what}"), cpus, format!("{percent:.0} %"), goal);
            }
        }
    }
    for (pipeline, speeds) in [(Pipeline::Crops, &crops), (Pipeline::Whole, &whole)] {
        for speed in speeds {
            if let Some(allocations) = speed.allocations {
                let what =
                    format!("{}: allocations a minibatch of {MINIBATCH} images, once warm", pipeline.name());
                // The goal allows a constant number for each minibatch, but not one for each image.
                let goal = if allocations >= 1.0 { "missed: none an image" } else { "none an image" };
                add(&what, speed.threads, format!("{:.1}", allocations * MINIBATCH as f64), goal.to_owned());
            }
        }
    }
    Ok((speeds, ratios))
}

fn find(speeds: &[Speed], reader: Reader, threads: usize) -> Option<&Speed> {
    speeds.iter().find(|speed| speed.reader == reader && speed.threads == threads)
}

/// Measures some readers in turn, and adds a row for each. Reports and skips other libraries that
/// fail.
fn compare(
    project: &Project,
    options: &Options,
    corpus: &Corpus,
    pipeline: Pipeline,
    readers: &[(Reader, usize)],
    table: &mut Table,
) -> Result<Vec<Speed>> {
    let (mut kept, mut subjects, mut expected) = (Vec::new(), Vec::new(), None);
    for &(reader, threads) in readers {
        let subject = subject(project, corpus, pipeline, reader, threads)?;
        let found =
            subject.once().and_then(|found| check(corpus, pipeline, &found, &mut expected).map(|()| found));
        if let Err(error) = found {
            let is_peer = matches!(reader, Reader::Peer(_));
            let error = error.context(subject.name.clone());
            ensure!(is_peer, error);
            say!("{} could not be measured: {}", subject.name, last_line(&error));
            continue;
        }
        kept.push((reader, threads));
        subjects.push(subject);
    }
    let results = alternate(project, pipeline.name(), &subjects, options.repetitions, &[])?;
    let mut speeds = Vec::new();
    for ((subject, results), (reader, threads)) in subjects.iter().zip(&results).zip(kept) {
        let (seconds, allocations) = match reader {
            Reader::Own => (results.median(&last_sweep())?, Some(results.median("/allocations")?)),
            Reader::Decoder | Reader::Peer(_) => (results.median("/seconds")?, None),
        };
        let rate = corpus.images as f64 / seconds;
        let each = number(1e3 / rate);
        let name = name(reader, &subject.name, results)?;
        table.add(vec![pipeline.name().to_owned(), name, threads.to_string(), number(rate), each]);
        speeds.push(Speed { reader, threads, rate, allocations });
    }
    Ok(speeds)
}

/// Returns the JSON pointer of the time of this library's last sweep.
fn last_sweep() -> String {
    format!("/sweeps/{}", SWEEPS - 1)
}

/// Returns the name of a reader in the table.
fn name(reader: Reader, subject: &str, results: &Results) -> Result<String> {
    Ok(match reader {
        Reader::Own => subject.to_owned(),
        Reader::Decoder => "cntk-reader's decoder".to_owned(),
        Reader::Peer("dataloader") => format!("DataLoader, torchvision {}", version(results)?),
        Reader::Peer("dataloader-tensors" | "dataloader-bytes") => {
            format!("DataLoader, tensors {}", version(results)?)
        }
        Reader::Peer(library) => format!("decoder {library} {}", version(results)?),
    })
}

/// Returns the subject that runs a reader on as many CPUs as threads.
fn subject(
    project: &Project,
    corpus: &Corpus,
    pipeline: Pipeline,
    reader: Reader,
    threads: usize,
) -> Result<Subject> {
    let (root, program, folder_) = (project.root.clone(), corpus.program.clone(), corpus.folder.clone());
    Ok(match reader {
        Reader::Own => {
            let config = corpus.config(pipeline)?;
            Subject::new("cntk-reader", move || {
                let run = bound(&program, &root, threads).arg("measure").arg(&config);
                let run = run.args([MINIBATCH.to_string(), SWEEPS.to_string()]);
                let run = if pipeline == Pipeline::Whole { run.arg("check") } else { run };
                run.env("CNTK_READER_THREADS", threads.to_string())
            })
        }
        Reader::Decoder => Subject::new("decoder", move || {
            bound(&program, &root, threads).arg("decode").arg(&folder_).arg(threads.to_string())
        }),
        Reader::Peer(library) => {
            let python = folder(project).join("venv/bin/python");
            let script = project.path("benches/scripts/image_peers.py");
            Subject::new(library, move || {
                let run = bound(&python.to_string_lossy(), &root, threads).arg(&script).arg(library);
                run.arg(&folder_).arg(threads.to_string())
            })
        }
    })
}

/// Fails if not all images were read, or if pixels of whole images differ from those of earlier
/// readers.
fn check(corpus: &Corpus, pipeline: Pipeline, found: &Value, expected: &mut Option<Value>) -> Result<()> {
    let images = match found.get("samples") {
        Some(samples) => samples.as_u64().map(|samples| samples / SWEEPS as u64),
        None => found["sums"]["images"].as_u64(),
    };
    ensure!(images == Some(corpus.images), "{images:?} images were read instead of {}", corpus.images);
    if pipeline == Pipeline::Whole {
        let sums = found.get("sums").context("`sums` is missing")?;
        let expected = expected.get_or_insert_with(|| sums.clone());
        ensure!(sums == expected, "other pixels were read: {sums} instead of {expected}");
    }
    Ok(())
}
