//! Readers compared with each other: one whose index is built incrementally with one that has it
//! from the start, and one that reads batches packed by several threads with one that reads single
//! minibatches. Minibatches, flags, states and checkpoints must be equal, wherever either is
//! restored.

use crate::language::from_text;
use crate::language::options::TextOptions;
use cntk_reader_core::ErrorKind;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::runtime::thread;
use cntk_reader_engine::pack::Minibatch;
use cntk_reader_engine::randomize::random::Random;
use cntk_reader_engine::randomize::{SIZE_OF_SWEEP, SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_engine::reader::parallel_packer::PackingThreads;
use cntk_reader_engine::reader::{
    Epoch, EpochProgress, Extensions, POSITION_KEY, ReadConfig, Reader, Sizes, build,
};
use cntk_reader_text::ctf::TextDeserializer;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Uses fewer threads while the caller does something else.
fn packed_by(threads: usize) -> PackingThreads {
    PackingThreads { all: threads, beside_caller: threads.div_ceil(2) }
}

/// Opens a reader of this configuration, its index either complete or built in steps of `step`
/// bytes while data are read.
fn open(config: &str, step: Option<u64>) -> Reader {
    let options = from_text(config).expect("a configuration");
    let Some(text) = options.deserializers[0].of::<TextOptions>() else { panic!("no text") };
    let (pool, corpus) = (Pool::shared().expect("threads"), build::corpus(&options));
    let deserializer = pool.install(|| match step {
        Some(step) => TextDeserializer::open_in_steps(text, &corpus, &pool, step),
        None => TextDeserializer::open(text, &corpus),
    });
    let deserializer = AnyDeserializer::Known(Arc::new(deserializer.expect("good data")));
    Reader::over((deserializer, Vec::new()), &options, corpus, pool, packed_by(1), Process::current())
        .expect("a reader")
}

/// Opens a reader of this configuration with `threads` packing threads.
fn open_packing(config: &str, threads: usize) -> Reader {
    let mut options = from_text(config).expect("a configuration");
    options.prefetch = threads > 1;
    let (pool, corpus) = (Pool::shared().expect("threads"), build::corpus(&options));
    let source = build::deserializer(&options, &Extensions::default(), &corpus, &pool).expect("good data");
    Reader::over(source, &options, corpus, pool, packed_by(threads), Process::current()).expect("a reader")
}

/// Some sequences have a malformed line and are invalid.
fn write_data(random: &mut Random, file: &Path, is_broken: bool) {
    let mut text = String::new();
    let (by_line, longest) = (random.range(0, 2) == 0, random.range(1, 5));
    for sequence in 0..random.range(20, 120) {
        for sample in 0..if by_line { 1 } else { random.range(1, longest + 1) } {
            if !by_line {
                write!(text, "{} ", 3 * sequence).expect("a string");
            }
            let odd = if is_broken && random.range(0, 20) == 0 { "?" } else { "" };
            writeln!(text, "|x {sequence} {odd}{sample}").expect("a string");
        }
    }
    std::fs::write(file, text).expect("writing the data");
}

fn random_read(random: &mut Random) -> ReadConfig {
    let workers = random.range(1, 4);
    let rank = random.range(0, workers);
    ReadConfig::new(random.range(1, 25)).worker(rank, workers).cross_sweeps(random.range(0, 3) > 0)
}

fn random_epoch(random: &mut Random) -> Epoch {
    let read = random_read(random);
    let (samples, sweeps, index) = match random.range(0, 4) {
        0 => (SIZE_OF_SWEEP, SWEEPS_UNLIMITED, random.range(0, 3)),
        1 => (SIZE_UNLIMITED, random.range(1, 4), random.range(0, 2)),
        2 => (SIZE_UNLIMITED, SWEEPS_UNLIMITED, 0),
        _ => (random.range(1, 200), SWEEPS_UNLIMITED, random.range(0, 4)),
    };
    Epoch { read, samples, sweeps, index }
}

/// Returns everything observable about a read.
fn read(reader: &mut Reader) -> String {
    let minibatch = match reader.read() {
        Ok(minibatch) => minibatch,
        Err(error) => return format!("{error} {:?}", reader.state()),
    };
    let streams: Vec<_> = minibatch.streams.iter().map(|stream| (&stream.layout, stream.block())).collect();
    let Minibatch { end_of_sweep, end_of_epoch, keys, .. } = &minibatch;
    format!("{streams:?} {keys:?} {end_of_sweep} {end_of_epoch} {:?}", reader.state())
}

/// Performs the same operations on two readers of the same configuration, one plain and one that
/// `again` opens anew from time to time. Returns the maximum number of minibatches that the other
/// one had ready.
fn compare_readers(
    random: &mut Random,
    what: &str,
    truncated: bool,
    mut plain: Reader,
    again: impl Fn(&mut Random) -> Reader,
) -> usize {
    let mut other = again(random);
    let epoch = random_epoch(random);
    // About half of the epochs have too many workers for the lanes of a truncated minibatch.
    match (plain.start_epoch(&epoch), other.start_epoch(&epoch)) {
        (Ok(()), Ok(())) => {}
        (Err(error), Err(other)) if error.message() == other.message() => return 0,
        (one, other) => panic!("{what}: {one:?}, {other:?}"),
    }
    let mut ready = 0;
    let mut checkpoints = vec![other.checkpoint().expect("a checkpoint")];
    for step in 0..random.range(5, 60) {
        let what = format!("step {step}, {epoch:?}, {what}");
        match random.range(0, 16) {
            0 => {
                let state = [(POSITION_KEY, random.range(0, 400))];
                plain.set_state(&state).expect("a state");
                other.set_state(&state).expect("a state");
            }
            1 => {
                let mut read = random_read(random);
                read.truncation_length = epoch.read.truncation_length;
                if !truncated {
                    // Not every checkpoint can be continued with other workers.
                    match (plain.configure(&read), other.configure(&read)) {
                        (Ok(()), Ok(())) => {}
                        (Err(one), Err(other)) if one.kind() == ErrorKind::Checkpoint => {
                            assert_eq!(one.message(), other.message(), "{what}");
                        }
                        (one, other) => panic!("{what}: {one:?}, {other:?}"),
                    }
                }
            }
            2 => {
                // From either kind of reader into either kind.
                checkpoints.push(plain.checkpoint().expect("a checkpoint"));
                checkpoints.push(other.checkpoint().expect("a checkpoint"));
                let checkpoint = &checkpoints[random.range(0, checkpoints.len() as u64) as usize];
                let mut fresh = (random.range(0, 2) == 0).then(|| {
                    let mut fresh = again(random);
                    let read = plain.config().expect("an epoch");
                    fresh.start_epoch(&Epoch { read, ..epoch }).expect("an epoch");
                    fresh
                });
                let restored = fresh.as_mut().unwrap_or(&mut other).restore(checkpoint);
                // The workers of a started epoch cannot continue from every checkpoint of others.
                match (plain.restore(checkpoint), restored) {
                    (Ok(()), Ok(())) => other = fresh.unwrap_or(other),
                    (Err(one), Err(other)) if one.kind() == ErrorKind::Checkpoint => {
                        assert_eq!(one.message(), other.message(), "{what}");
                    }
                    (one, other) => panic!("{what}: {one:?}, {other:?}"),
                }
            }
            _ => assert_eq!(read(&mut other), read(&mut plain), "{what}"),
        }
        assert_eq!(other.state(), plain.state(), "{what}");
        ready = ready.max(other.minibatches_ready());
    }
    ready
}

#[test]
fn growing_index_matches_complete_index() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data.ctf");
    let mut random = Random::new(11);
    for scenario in 0..150 {
        write_data(&mut random, &file, false);
        let truncated = random.range(0, 3) == 0;
        let config = config(&mut random, &file, truncated, "randomize = false", 300);
        let what = format!("scenario {scenario}\n{config}");
        compare_readers(&mut random, &what, truncated, open(&config, None), |random| {
            open(&config, Some(random.range(1, 500)))
        });
    }
}

#[test]
fn batches_match_single_minibatches() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data.ctf");
    let mut random = Random::new(12);
    let mut long_batches = 0;
    for scenario in 0..300 {
        let is_broken = random.range(0, 3) == 0;
        write_data(&mut random, &file, is_broken);
        let order = match random.range(0, 3) {
            0 => "randomize = false".to_owned(),
            _ => format!("randomize = true\nrandomizationWindow = {}", random.range(1, 6)),
        };
        let errors = random.range(0, 9);
        let config = config(&mut random, &file, false, &format!("{order}\nmaxErrors = {errors}"), 3000);
        let what = format!("scenario {scenario}\n{config}");
        let ready = compare_readers(&mut random, &what, false, open_packing(&config, 1), |random| {
            let threads = [2, 3, 4, 16][random.range(0, 4) as usize];
            let reader = open_packing(&config, threads);
            // Some threads fail to start at first: reading continues without them.
            thread::faults::FAILURES.set(random.range(0, 6).saturating_sub(2) as usize);
            reader
        });
        thread::faults::FAILURES.set(0);
        long_batches += usize::from(ready > 3);
    }
    assert!(long_batches > 30, "{long_batches}");
}

/// Writes long dense samples, most of them with the same number of decimals, and sparse ones.
fn write_long(random: &mut Random, file: &Path) {
    let mut text = String::new();
    let (decimals, largest) = (random.range(0, 9) as usize, random.range(1, 9_000_000) as i64);
    let odd = ["-0.000", "0.12345678", "1e20", "255"][random.range(0, 4) as usize];
    for sequence in 0..random.range(5, 60) {
        for _ in 0..random.range(1, 4) {
            write!(text, "{sequence} |x").expect("a string");
            for _ in 0..40 {
                let number = random.range(0, 2 * largest as u64) as i64 - largest;
                let value = number as f64 / 10_f64.powi(decimals as i32);
                match random.range(0, 2000) {
                    0 => write!(text, " {odd}").expect("a string"),
                    _ => write!(text, " {value:.decimals$}").expect("a string"),
                }
            }
            writeln!(text, " |s {}:0.25 {}:3", random.range(0, 9), random.range(0, 70_000))
                .expect("a string");
        }
    }
    std::fs::write(file, text).expect("writing the data");
}

#[test]
fn compact_storage_matches_plain_storage() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data.ctf");
    let mut random = Random::new(24);
    for scenario in 0..200 {
        write_long(&mut random, &file);
        let config = config(&mut random, &file, false, "randomize = true\nrandomizationWindow = 3", 20_000);
        let streams = "x = [ dim = 40 ; format = \"dense\" ] ; s = [ dim = 70000 ; format = \"sparse\" ]";
        let config = config.replace("x = [ dim = 2 ; format = \"dense\" ]", streams);
        let what = format!("scenario {scenario}\n{config}");
        // Readers opened without the builder use plain storage.
        compare_readers(&mut random, &what, false, open(&config, None), |_| open_packing(&config, 1));
    }
}

/// Returns a configuration with this order and chunks below this size, otherwise random.
fn config(random: &mut Random, file: &Path, truncated: bool, order: &str, chunk: u64) -> String {
    format!(
        "{order}\nlocalTimeline = {}\ntruncated = {truncated}\ntruncationLength = {}\ntraceLevel = 0\n\
         deserializers = ([\ntype = \"CNTKTextFormatDeserializer\"\nmodule = \"CNTKTextFormatReader\"\n\
         file = \"{}\"\nchunkSizeInBytes = {}\ninput = [ x = [ dim = 2 ; format = \"dense\" ] ]\n])\n",
        random.range(0, 2) == 0,
        if truncated { 3 } else { 0 },
        file.display(),
        random.range(1, chunk),
    )
}

#[test]
fn checkpoint_verifies_the_data_read_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data.ctf");
    let config = format!(
        "randomize = false\ndeserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\"\n\
         file = \"{}\" ; chunkSizeInBytes = 20 ; input = [ x = [ dim = 1 ; format = \"dense\" ] ] ])\n",
        file.display()
    );
    let lines: Vec<String> = (0..100).map(|key| format!("{key} |x 1\n")).collect();
    std::fs::write(&file, lines.concat()).expect("writing the data");
    let read = ReadConfig::new(4);
    let epoch = Epoch { read, samples: SIZE_UNLIMITED, sweeps: 2, index: 0 };
    let mut reader = open(&config, Some(40));
    reader.start_epoch(&epoch).expect("an epoch");
    (0..3).for_each(|_| drop(reader.read().expect("a minibatch")));
    let early = reader.checkpoint().expect("a checkpoint");
    (0..30).for_each(|_| drop(reader.read().expect("a minibatch")));
    let late = reader.checkpoint().expect("a checkpoint");

    // Change the data after the first checkpoint, then before it.
    let refused = |checkpoint: &[u8]| open(&config, Some(40)).restore(checkpoint).is_err();
    let change = |line: usize| {
        let mut lines = lines.clone();
        lines[line] = "7777 |x 1\n".to_owned();
        std::fs::write(&file, lines.concat()).expect("writing the data");
    };
    change(90);
    assert!(!refused(&early));
    assert!(refused(&late));
    change(5);
    assert!(refused(&early) && refused(&late));
    std::fs::write(&file, lines[..10].concat()).expect("writing the data");
    assert!(refused(&early) && refused(&late));
}

#[test]
fn reader_can_be_dropped_during_indexing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data.ctf");
    // After the first chunks comes a line that takes far too long to scan.
    std::fs::write(&file, "|x 1\n".repeat(1000)).expect("writing the data");
    let sparse = std::fs::File::options().write(true).open(&file).and_then(|file| file.set_len(1 << 40));
    sparse.expect("a sparse file");
    let config = format!(
        "randomize = false\ndeserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\"\n\
         file = \"{}\" ; chunkSizeInBytes = 2500 ; input = [ x = [ dim = 1 ; format = \"dense\" ] ] ])\n",
        file.display()
    );
    let mut reader = open(&config, Some(1 << 20));
    let read = ReadConfig::new(400);
    let epoch = Epoch { read, samples: SIZE_UNLIMITED, sweeps: 1, index: 0 };
    reader.start_epoch(&epoch).expect("an epoch");
    // The next one, packed ahead, waits for the end of the line.
    assert_eq!(reader.read().expect("a minibatch").streams[0].layout.samples(), 400);
    drop(reader);
}

/// Counts the samples of a minibatch.
fn samples_of_data(minibatch: &Minibatch) -> u64 {
    minibatch.streams.first().map_or(0, |stream| stream.layout.samples() as u64)
}

/// Checks [`Reader::progress`] at each minibatch of one epoch, read by this many workers, against
/// the number of samples delivered so far, and that a reader restored there reports the same.
fn check_progress(config: &str, epoch: Epoch, workers: u64, expected: u64) {
    let settings = from_text(config).expect("a configuration");
    let open = || Reader::open(&settings).expect("a reader");
    let mut readers: Vec<_> = (0..workers).map(|_| open()).collect();
    for (rank, reader) in (0..).zip(&mut readers) {
        assert!(reader.progress().is_err(), "no epoch was started");
        reader.start_epoch(&epoch.worker(rank, workers)).expect("an epoch");
        let progress = reader.progress().expect("progress");
        assert_eq!((progress.delivered, progress.expected), (0, Some(expected)), "{config}");
    }
    let mut delivered = vec![0; workers as usize];
    let mut before = 0;
    loop {
        let mut is_over = true;
        for (reader, delivered) in readers.iter_mut().zip(&mut delivered) {
            let minibatch = reader.read().expect("a minibatch");
            *delivered += samples_of_data(&minibatch);
            is_over &= minibatch.end_of_epoch;
        }
        let progress: Vec<_> = readers.iter().map(|reader| reader.progress().expect("progress")).collect();
        let now = progress[0].delivered;
        if workers == 1 {
            assert_eq!(now, delivered[0], "{config}");
        }
        assert!(now >= before && now <= expected, "{config}: {now} after {before} of {expected}");
        assert_eq!(progress[0].expected, Some(expected));
        before = now;
        let mut restored = open();
        restored.restore(&readers[0].checkpoint().expect("a checkpoint")).expect("its own checkpoint");
        assert_eq!(restored.progress().expect("progress"), progress[0], "{config}");
        if is_over {
            // Together the workers have delivered the whole epoch, and each has reached its end.
            assert_eq!(delivered.iter().sum::<u64>(), expected, "{config}");
            progress.iter().for_each(|progress| assert_eq!(progress.delivered, expected, "{config}"));
            return;
        }
    }
}

#[test]
fn progress_matches_delivered_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let (long, short) = (folder.path().join("long.ctf"), folder.path().join("short.ctf"));
    let mut text = String::new();
    let mut samples = 0;
    for id in 0..60 {
        for sample in 0..=id % 4 {
            writeln!(text, "{id} |x {id} {sample}").expect("a string");
            samples += 1;
        }
    }
    std::fs::write(&long, text).expect("writing the data");
    std::fs::write(&short, "|x 1 2\n".repeat(50)).expect("writing the data");
    let config = |file: &Path, options: &str| {
        format!(
            "traceLevel = 0\n{options}\ndeserializers = ([\ntype = \"CNTKTextFormatDeserializer\"\n\
             module = \"CNTKTextFormatReader\"\nchunkSizeInBytes = 100\nfile = \"{}\"\n\
             input = [ x = [ dim = 2 ; format = \"dense\" ] ]\n])\n",
            file.display()
        )
    };
    for order in [
        "randomize = false",
        "randomize = true\nrandomizationWindow = 3\nsampleBasedRandomizationWindow = false",
    ] {
        for workers in 1..=3 {
            for (file, mode, sweep) in [
                (&long, "", samples),
                (&short, "frameMode = true", 50),
                (&long, "truncated = true\ntruncationLength = 3", samples),
            ] {
                let config = config(file, &format!("{order}\n{mode}"));
                for sweeps in [1, 2] {
                    let epoch = Epoch::sweeps(sweeps).minibatch_size(12);
                    check_progress(&config, epoch, workers, sweeps * sweep);
                }
                let mut reader =
                    Reader::open(&from_text(&config).expect("a configuration")).expect("a reader");
                assert_eq!(reader.sizes().samples, Some(sweep));
                reader.start_epoch(&Epoch::unlimited().minibatch_size(12)).expect("an epoch");
                assert_eq!(reader.progress().expect("progress").expected, None);
                while !reader.read().expect("a minibatch").end_of_sweep {}
                assert!(reader.progress().expect("progress").sweep <= 1);
            }
        }
    }
    // Epochs in samples: single-sequence epochs end where they should.
    let config = config(&short, "");
    check_progress(&config, Epoch::samples(30).index(2).minibatch_size(7), 1, 30);
    check_progress(&config, Epoch::samples(120).minibatch_size(7), 2, 120);
}

#[test]
fn sizes_are_known_once_the_index_is_complete() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data.ctf");
    std::fs::write(&file, (0..300).map(|id| format!("{id} |x 1 2\n{id} |x 3 4\n")).collect::<String>())
        .expect("writing");
    let config = format!(
        "randomize = false\ntraceLevel = 0\ndeserializers = ([ type = \"CNTKTextFormatDeserializer\"\n\
         module = \"CNTKTextFormatReader\"\nchunkSizeInBytes = 500\nfile = \"{}\"\n\
         input = [ x = [ dim = 2 ; format = \"dense\" ] ] ])\n",
        file.display()
    );
    let whole = open(&config, None);
    let chunks = whole.sizes().chunks.expect("a number of chunks");
    assert_eq!((whole.sizes().samples, whole.sizes().sequences), (Some(600), Some(300)));
    let mut growing = open(&config, Some(100));
    assert_eq!(growing.sizes(), Sizes::default());
    growing.start_epoch(&Epoch::sweeps(1).minibatch_size(50)).expect("an epoch");
    assert_eq!(growing.progress().expect("progress"), EpochProgress::default());
    let mut delivered = 0;
    while let minibatch = growing.read().expect("a minibatch")
        && !minibatch.streams.is_empty()
    {
        delivered += samples_of_data(&minibatch);
        let progress = growing.progress().expect("progress");
        assert_eq!((progress.delivered, progress.sweep), (delivered, delivered / 600));
        assert!(progress.expected.is_none_or(|expected| expected == 600));
    }
    let sizes = growing.sizes();
    assert_eq!((sizes.samples, sizes.sequences, sizes.chunks), (Some(600), Some(300), Some(chunks)));
    assert_eq!(growing.progress().expect("progress").expected, Some(600));

    let settings = from_text(&config).expect("a configuration");
    let reader = Reader::open(&settings).expect("a reader");
    let [member] = reader.members() else { panic!("one deserializer") };
    assert_eq!(member.name(), file.to_str().expect("a path"));
    assert_eq!(member.type_name(), "CNTKTextFormatDeserializer");
    assert_eq!(member.sizes(), growing.sizes());
}

#[test]
fn truncation_length_without_truncation_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data.ctf");
    std::fs::write(&file, "|x 1 2\n").expect("writing");
    let config = format!(
        "traceLevel = 0\ndeserializers = ([ type = \"CNTKTextFormatDeserializer\"\nmodule = \"CNTKTextFormatReader\"\n\
         file = \"{}\"\ninput = [ x = [ dim = 2 ; format = \"dense\" ] ] ])\n",
        file.display()
    );
    let mut settings = from_text(&config).expect("a configuration");
    let truncated = ReadConfig::new(4).truncation_length(2);
    let mut reader = Reader::open(&settings).expect("a reader");
    let error = reader.start_epoch(&Epoch::sweeps(1).read_config(truncated)).expect_err("an error");
    assert!(error.detail().contains("truncated = true"), "{error}");
    reader.start_epoch(&Epoch::sweeps(1).minibatch_size(4)).expect("an epoch");
    assert!(reader.configure(&ReadConfig::new(4).right_splice(1)).is_err());
    assert_eq!(samples_of_data(&reader.read().expect("a minibatch")), 1);
    // In CNTK's place it is ignored, as in CNTK.
    settings.in_place_of = Some(Release::Current);
    let mut reader = Reader::open(&settings).expect("a reader");
    reader.start_epoch(&Epoch::sweeps(1).read_config(truncated)).expect("an epoch");
    reader.configure(&truncated).expect("a configuration");
}
