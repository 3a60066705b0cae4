//! The crate as a Rust program uses it: only through the names at its root.

use cntk_reader::user::{
    Image, ImageInfo, Sequences, StreamData, UserChunk, UserDeserializer, UserTransform,
};
use cntk_reader::{
    CbfDeserializer, Config, CtfDeserializer, ElementType, Epoch, EpochState, Error, ErrorKind, ReadConfig,
    Reader, ReaderOptions, Result, StreamInfo,
};
use std::path::Path;
use tempfile::TempDir;

/// Twenty images of two values with a label of ten classes; key and values are the line's number.
fn digits() -> (TempDir, CtfDeserializer) {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..20).map(|i| format!("{i} |features {i} {i}.5 |labels {}:1\n", i % 10)).collect();
    let file = write(folder.path(), "digits.ctf", &lines);
    (folder, CtfDeserializer::new(file).dense("features", 2).sparse("labels", 10))
}

fn write(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("writing data");
    path
}

fn open(ctf: &CtfDeserializer, options: ReaderOptions) -> Reader {
    Reader::builder().options(options.trace_level(0)).ctf(ctf.clone()).open().expect("a reader")
}

fn in_order() -> ReaderOptions {
    ReaderOptions::new().randomize(false)
}

/// Returns the keys of the remaining minibatches.
fn keys(minibatches: impl Iterator<Item = Result<cntk_reader::Minibatch>>) -> Vec<u64> {
    minibatches.flat_map(|minibatch| minibatch.expect("a minibatch").keys().to_vec()).collect()
}

#[test]
fn streams_are_found_by_name() {
    let (_folder, ctf) = digits();
    let mut reader = open(&ctf, in_order());
    let names: Vec<_> = reader.streams().iter().map(|stream| stream.name.clone()).collect();
    assert_eq!(names, ["features", "labels"]);
    let mut line = 0;
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(8)).expect("an epoch") {
        let minibatch = minibatch.expect("a minibatch");
        let features = minibatch.stream("features").expect("a stream");
        let labels = minibatch.stream("labels").expect("a stream");
        assert_eq!((features.sample_size(), labels.shape()), (2, &[10][..]));
        assert_eq!((features.samples(), features.columns()), (minibatch.sequences(), minibatch.sequences()));
        let labels = labels.sparse::<f32>().expect("sparse values");
        for (column, values) in features.dense::<f32>().expect("values").chunks_exact(2).enumerate() {
            assert_eq!(values, [line as f32, line as f32 + 0.5]);
            assert_eq!(labels.column(column), Some((&[line % 10][..], &[1.0][..])));
            assert_eq!(minibatch.key_text(column), Some(line.to_string()));
            line += 1;
        }
        assert_eq!(minibatch.end_of_epoch(), line == 20);
    }
    assert_eq!(line, 20);
    assert_eq!(reader.sizes().samples, Some(20));
    assert_eq!(reader.members().len(), 1);
}

#[test]
fn unknown_stream_lists_known_streams() {
    let (_folder, ctf) = digits();
    let mut reader = open(&ctf, in_order());
    let minibatch = reader.epoch(Epoch::sweeps(1).minibatch_size(8)).expect("an epoch").next();
    let minibatch = minibatch.expect("one").expect("a minibatch");
    for error in [
        minibatch.stream("feature").expect_err("no such stream"),
        reader.stream("feature").expect_err("no such stream"),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains("'feature'") && text.contains("'features', 'labels'"), "{text}");
    }
    let features = minibatch.stream("features").expect("a stream");
    let labels = minibatch.stream("labels").expect("a stream");
    for (error, hint) in [
        (features.dense::<f64>().expect_err("floats"), "dense::<f32>"),
        (features.sparse::<f32>().expect_err("dense"), "dense::<f32>"),
        (labels.dense::<f32>().expect_err("sparse"), "sparse::<f32>"),
    ] {
        assert!(error.to_string().contains(&format!("read it with {hint}")), "{error}");
    }
    assert!(format!("{minibatch:?} {reader:?}").contains("features"));
}

#[test]
fn doubles_are_read_as_doubles() {
    let (_folder, ctf) = digits();
    let mut reader = open(&ctf, in_order().precision(ElementType::Double));
    let minibatch = reader.epoch(Epoch::samples(3).minibatch_size(8)).expect("an epoch").next();
    let minibatch = minibatch.expect("one").expect("a minibatch");
    let values = minibatch.stream("features").and_then(|stream| stream.dense::<f64>()).expect("doubles");
    assert_eq!(values, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
}

#[test]
fn epochs_end_and_continue() {
    let (_folder, ctf) = digits();
    let mut reader = open(&ctf, ReaderOptions::new());
    let first = keys(reader.epoch(Epoch::sweeps(1).minibatch_size(6)).expect("an epoch"));
    assert!(keys(reader.rest_of_epoch()).is_empty());
    let minibatch = reader.read().expect("nothing");
    assert!(minibatch.is_empty() && minibatch.end_of_epoch());
    // The streams of a minibatch without data exist, but are empty.
    assert!(
        minibatch.stream("features").and_then(|stream| stream.dense::<f32>()).expect("nothing").is_empty()
    );
    let nothing = minibatch.stream("labels").and_then(|stream| stream.sparse::<f32>()).expect("nothing");
    assert_eq!((nothing.columns(), nothing.values.len()), (0, 0));

    let second = keys(reader.epoch(Epoch::sweeps(1).index(1).minibatch_size(6)).expect("an epoch"));
    let both = keys(reader.epoch(Epoch::sweeps(2).minibatch_size(6)).expect("an epoch"));
    assert_eq!([first.as_slice(), &second].concat(), both);
    assert_ne!(first, second);
    let endless = reader.epoch(Epoch::unlimited().minibatch_size(6)).expect("an epoch").take(100);
    assert_eq!(keys(endless).len(), 600);
    let shares: Vec<_> = (0..3)
        .flat_map(|rank| {
            let (_folder, ctf) = digits();
            let ctf = ctf.chunk_size(50);
            let mut reader = open(&ctf, ReaderOptions::new());
            keys(reader.epoch(Epoch::sweeps(1).minibatch_size(6).worker(rank, 3)).expect("an epoch"))
        })
        .collect();
    let mut all = shares;
    all.sort_unstable();
    assert_eq!(all, (0..20).collect::<Vec<_>>());
}

#[test]
fn epochs_are_started_one_after_the_other() {
    let (_folder, ctf) = digits();
    let options = || ReaderOptions::new().randomization_seed(3);
    let sweep = Epoch::sweeps(1).minibatch_size(8);
    let mut reader = open(&ctf, options());
    assert_eq!(reader.current_epoch(), None);
    let mut orders = Vec::new();
    for index in 0..4 {
        orders.push(keys(reader.next_epoch(sweep).expect("an epoch")));
        assert_eq!(reader.current_epoch(), Some((index, EpochState::Over)));
        assert_eq!(orders.last(), Some(&keys(reader.epoch(sweep.index(index)).expect("an epoch"))));
    }

    // A checkpoint continues its epoch, and a checkpoint from the end continues with the next one.
    let mut loops = reader.epoch(sweep.index(2)).expect("an epoch");
    let mut checkpoints = Vec::new();
    while let Some(minibatch) = loops.next() {
        minibatch.expect("a minibatch");
        checkpoints.push((loops.reader().checkpoint().expect("a checkpoint"), 2));
    }
    checkpoints.push((reader.checkpoint().expect("a checkpoint"), 3));
    for (read, (checkpoint, index)) in checkpoints.iter().enumerate() {
        let mut other = open(&ctf, options());
        other.restore(checkpoint).expect("a fitting checkpoint");
        let rest = keys(other.next_epoch(sweep).expect("an epoch"));
        let (expected, skipped) = if *index == 2 { (&orders[2], 8 * (read + 1)) } else { (&orders[3], 0) };
        assert_eq!(rest, expected[skipped.min(20)..], "after {} minibatches", read + 1);
        assert_eq!(other.current_epoch(), Some((*index, EpochState::Over)));
    }
}

#[test]
fn next_epoch_of_another_size_needs_a_number() {
    let (_folder, ctf) = digits();
    let mut reader = open(&ctf, in_order());
    let _ = reader.next_epoch(Epoch::unlimited().minibatch_size(8)).expect("an epoch").next();
    // An endless epoch is not counted.
    let _ = reader.next_epoch(Epoch::sweeps(1).minibatch_size(8)).expect("an epoch").next();
    assert_eq!(reader.current_epoch(), Some((0, EpochState::Started)));
    let error = reader.next_epoch(Epoch::samples(5).minibatch_size(8)).expect_err("another size");
    assert_eq!(error.kind(), ErrorKind::State);
    assert!(error.message().contains("had one sweep, but one of 5 samples"), "{error}");
    assert_eq!(reader.current_epoch(), Some((0, EpochState::Started)));
    // Other workers and minibatch sizes continue a restored epoch if they can.
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    reader.restore(&checkpoint).expect("its own");
    let sizes: Vec<_> = reader
        .next_epoch(Epoch::sweeps(1).minibatch_size(5))
        .expect("an epoch")
        .map(|minibatch| minibatch.expect("a minibatch").sequences())
        .collect();
    assert_eq!(sizes, [5, 5, 2]);
}

#[test]
fn workers_in_lockstep_make_equal_steps() {
    let (_folder, ctf) = digits();
    // Five or more chunks, at most one for each worker.
    let open = || open(&ctf.clone().chunk_size(100), ReaderOptions::new().lockstep(true));
    let epoch = |rank, workers| Epoch::sweeps(2).minibatch_size(3).worker(rank, workers);
    let steps_of = |minibatches: cntk_reader::EpochIter<'_>| -> Vec<Vec<u64>> {
        minibatches.map(|minibatch| minibatch.expect("a minibatch").keys().to_vec()).collect()
    };
    let whole = steps_of(open().epoch(epoch(0, 1)).expect("an epoch"));
    assert_eq!((whole.len(), whole.concat().len()), (14, 40));
    // Merges the shares of each step, in the order of the keys.
    let together = |mut shares: Vec<Vec<Vec<u64>>>| -> Vec<Vec<u64>> {
        let mut steps = shares.pop().expect("a worker");
        for share in shares {
            assert_eq!(share.len(), steps.len());
            steps.iter_mut().zip(share).for_each(|(step, share)| step.extend(share));
        }
        steps.iter_mut().for_each(|step| step.sort_unstable());
        steps
    };
    let whole = together(vec![whole]);
    for workers in [2, 3, 50] {
        let share = |rank| steps_of(open().epoch(epoch(rank, workers)).expect("an epoch"));
        let shares: Vec<_> = (0..workers).map(share).collect();
        assert!(shares.iter().any(|share| share.iter().any(Vec::is_empty)), "shares may be empty");
        assert_eq!(together(shares), whole);

        // Five workers continue an epoch that other numbers of workers have begun.
        let mut first = open();
        let begun = first.epoch(epoch(workers - 1, workers)).expect("an epoch").take(4).count();
        let state = first.checkpoint().expect("a checkpoint");
        let rest = |rank| {
            let mut reader = open();
            reader.restore(&state).expect("restoring");
            reader.configure(ReadConfig::new(3).worker(rank, 5)).expect("a configuration");
            let steps = steps_of(reader.rest_of_epoch());
            assert_eq!(steps_of(reader.rest_of_epoch()), [[0; 0]; 0], "nothing after the end");
            steps
        };
        assert_eq!(together((0..5).map(rest).collect()), whole[begun..]);
    }
}

#[test]
fn loops_can_be_left_configured_and_resumed() {
    let (_folder, ctf) = digits();
    let mut reader = open(&ctf, in_order());
    let mut first = 0;
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(4)).expect("an epoch") {
        first += minibatch.expect("a minibatch").sequences();
        if first >= 4 {
            break;
        }
    }
    assert_eq!(first, 4);
    let mut rest = reader.rest_of_epoch();
    assert_eq!(rest.next().expect("one").expect("a minibatch").keys(), [4, 5, 6, 7]);
    rest.reader_mut().configure(ReadConfig::new(2)).expect("a configuration");
    assert_eq!(rest.next().expect("one").expect("a minibatch").keys(), [8, 9]);
    assert_eq!(rest.reader().progress().expect("progress").delivered, 10);
    let bytes = rest.reader().checkpoint().expect("a checkpoint");
    let state = rest.reader().cntk_state();
    assert_eq!(keys(rest), (10..20).collect::<Vec<_>>());
    assert_eq!(reader.config().expect("a configuration").minibatch_size, 2);

    let mut fresh = open(&ctf, in_order());
    fresh.restore(&bytes).expect("restoring");
    assert_eq!(keys(fresh.rest_of_epoch()), (10..20).collect::<Vec<_>>());
    fresh.restore_cntk_state(&state).expect("restoring");
    assert_eq!(keys(fresh.rest_of_epoch()), (10..20).collect::<Vec<_>>());
    let refused = open(&ctf, ReaderOptions::new()).restore(&bytes).expect_err("another order");
    assert_eq!(refused.kind(), ErrorKind::Checkpoint);
}

#[test]
fn epochs_continue_after_recoverable_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String =
        (0..12).map(|i| if i == 6 { "|x 1 zz\n".to_owned() } else { format!("|x {i:02} 1\n") }).collect();
    let file = write(folder.path(), "bad.ctf", &lines);
    let ctf = CtfDeserializer::new(file).dense("x", 2).chunk_size(32);
    let mut reader = open(&ctf, in_order());
    let outcomes: Vec<_> = reader.epoch(Epoch::sweeps(1).minibatch_size(4)).expect("an epoch").collect();
    let (good, bad): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!(bad.len(), 1);
    assert_eq!(bad[0].as_ref().expect_err("an error").location().line, Some(7));
    assert_eq!(keys(good.into_iter()), [0, 1, 2, 3, 8, 9, 10, 11]);
    // Reading before an epoch was started fails, but the reader can be used afterwards.
    let mut reader = open(&ctf, in_order());
    let errors: Vec<_> = reader.rest_of_epoch().collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].as_ref().expect_err("no epoch").kind(), ErrorKind::State);
}

#[test]
fn sizes_that_mean_nothing_are_refused() {
    let (_folder, ctf) = digits();
    let mut reader = open(&ctf, in_order());
    let error = reader.epoch(Epoch::sweeps(1)).expect_err("no minibatch size");
    assert!(error.to_string().contains("such as 256"), "{error}");
    let read = ReadConfig::new(4).truncation_length(3);
    let error = reader.epoch(Epoch::sweeps(1).read_config(read)).expect_err("not truncated");
    assert!(error.to_string().contains("'truncation_length'"), "{error}");
    let error = reader.epoch(Epoch::sweeps(1).minibatch_size(4).worker(3, 3)).expect_err("no such worker");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    // In truncated mode sizes may change, and sparse streams may become dense.
    for expands in [false, true] {
        let mut reader = open(&ctf, in_order().truncation_length(2).expand_sparse(expands));
        let mut minibatches = reader.epoch(Epoch::sweeps(1).minibatch_size(4)).expect("an epoch");
        minibatches.reader_mut().configure(read).expect("a longer minibatch");
        let minibatch = minibatches.next().expect("one").expect("a minibatch");
        let labels = minibatch.stream("labels").expect("a stream");
        assert_eq!((labels.dense::<f32>().is_ok(), labels.sparse::<f32>().is_ok()), (expands, !expands));
    }
}

#[test]
fn minibatches_end_with_the_sweep_unless_they_may_cross_it() {
    let (_folder, ctf) = digits();
    let steps = |epoch: Epoch| -> Vec<(usize, bool)> {
        let mut reader = open(&ctf, in_order());
        let minibatches = reader.epoch(epoch.minibatch_size(8)).expect("an epoch");
        let minibatches = minibatches.map(|minibatch| minibatch.expect("a minibatch"));
        minibatches.map(|minibatch| (minibatch.sequences(), minibatch.end_of_sweep())).collect()
    };
    let crossing = [(8, false), (8, false), (8, true), (8, false), (8, true)];
    assert_eq!(steps(Epoch::sweeps(2)), crossing);
    assert_eq!(steps(Epoch::sweeps(2).cross_sweeps(true)), crossing);
    let sweep = [(8, false), (8, false), (4, true)];
    assert_eq!(steps(Epoch::sweeps(2).cross_sweeps(false)), [sweep, sweep].concat());
}

#[test]
fn checkpoints_resume_over_changed_values_if_allowed() {
    let (folder, ctf) = digits();
    let mut reader = open(&ctf, in_order());
    let first = reader.epoch(Epoch::sweeps(1).minibatch_size(6)).expect("an epoch").next();
    first.expect("one").expect("a minibatch");
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    drop(reader);
    // Labels as before, and other features of the same size.
    let lines = (0..20).map(|i| format!("{i} |features {i} {i}.7 |labels {}:1\n", i % 10));
    write(folder.path(), "digits.ctf", &lines.collect::<String>());
    let mut reader = open(&ctf, in_order());
    let error = reader.restore(&checkpoint).expect_err("other values");
    assert_eq!(error.kind(), ErrorKind::Checkpoint);
    assert_eq!(reader.current_epoch(), None);
    reader.restore_over_changed_values(&checkpoint).expect("the same keys and lengths");
    let mut line = 6;
    for minibatch in reader.rest_of_epoch() {
        let minibatch = minibatch.expect("a minibatch");
        let features = minibatch.stream("features").and_then(|stream| stream.dense::<f32>()).expect("values");
        for (sample, &key) in features.chunks_exact(2).zip(minibatch.keys()) {
            assert_eq!(
                (key, sample),
                (line, &[line as f32, format!("{line}.7").parse().expect("a number")][..])
            );
            line += 1;
        }
    }
    assert_eq!(line, 20);
}

#[test]
fn suggested_chunks_give_all_workers_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (100..500).map(|i| format!("{i} |x {i}\n")).collect();
    let ctf = CtfDeserializer::new(write(folder.path(), "x.ctf", &lines)).dense("x", 1);
    let reader = open(&ctf, ReaderOptions::new());
    assert_eq!(reader.sizes().chunks, Some(1));
    let size = reader.suggest_chunk_size(4);
    assert!(size < lines.len() as u64 / 4 && reader.suggest_chunk_size(8) < size, "{size}");
    let ctf = ctf.chunk_size(size);
    let shares = [0, 1, 2, 3].map(|rank| {
        let mut reader = open(&ctf, ReaderOptions::new());
        keys(reader.epoch(Epoch::sweeps(1).minibatch_size(20).worker(rank, 4)).expect("an epoch")).len()
    });
    assert_eq!(shares.iter().sum::<usize>(), 400);
    assert!(shares.iter().all(|&share| (80..=120).contains(&share)), "{shares:?}");
}

#[test]
fn builder_describes_its_parts_for_debugging() {
    let (folder, ctf) = digits();
    let config = write(folder.path(), "digits.cntk", "frameMode = true\n");
    let builder = Reader::builder()
        .config_file(config)
        .expect("a configuration")
        .options(ReaderOptions::new().randomization_seed(77))
        .ctf(ctf)
        .deserializer("squares", Squares::below(20))
        .transform("Warp", Warp);
    let text = format!("{builder:?}");
    for part in ["digits.cntk", "(\"randomizationSeed\", Word(\"77\"))", "digits.ctf"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.ends_with("\"squares\"], transforms: [\"Warp\"] }"), "{text}");
}

/// Changes nothing.
struct Warp;

impl UserTransform for Warp {
    fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
        Ok(image)
    }

    fn apply(&self, _: &mut Image, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Sequences of different lengths share a minibatch, or are truncated. Each column belongs to one
/// sequence, and all samples are delivered.
#[test]
fn columns_belong_to_their_sequences() {
    let folder = tempfile::tempdir().expect("a folder");
    let text: String = (0..7)
        .flat_map(|key| (0..=key % 4).map(move |step| format!("{key} |x {}\n", 10 * key + step)))
        .collect();
    let ctf = CtfDeserializer::new(write(folder.path(), "x.ctf", &text)).dense("x", 1);
    for options in [in_order(), ReaderOptions::new(), in_order().truncation_length(2)] {
        let mut reader = open(&ctf, options);
        let mut seen = vec![Vec::new(); 7];
        for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(6)).expect("an epoch") {
            let minibatch = minibatch.expect("a minibatch");
            let x = minibatch.stream("x").expect("a stream");
            let values = x.dense::<f32>().expect("values");
            let mut taken = vec![false; values.len()];
            for (sequence, columns) in x.sequences() {
                let key = minibatch.keys()[sequence] as usize;
                for column in columns {
                    assert!(!std::mem::replace(&mut taken[column], true), "column {column} is given twice");
                    seen[key].push(values[column] as usize);
                }
            }
            assert_eq!(taken.iter().filter(|&&taken| taken).count(), x.samples());
        }
        for (key, values) in seen.into_iter().enumerate() {
            assert_eq!(values, (0..=key % 4).map(|step| 10 * key + step).collect::<Vec<_>>());
        }
    }
}

/// Squares of the numbers below a limit, ten to a chunk; the key is the number.
struct Squares {
    streams: [StreamInfo; 1],
    limit: u32,
    /// Whether sequences are known before they are loaded.
    is_listed: bool,
}

impl Squares {
    fn below(limit: u32) -> Squares {
        Squares { streams: [StreamInfo::dense("squares", &[1])], limit, is_listed: true }
    }

    fn numbers(&self, chunk: u32) -> std::ops::Range<u32> {
        chunk * 10..(chunk * 10 + 10).min(self.limit)
    }
}

impl UserDeserializer for Squares {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        self.limit.div_ceil(10)
    }

    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        Ok(self.is_listed.then(|| Sequences::of_one_sample(self.numbers(chunk).len() as u32)))
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        let values: Vec<f32> = self.numbers(chunk).map(|number| (number * number) as f32).collect();
        Ok(UserChunk::arrays(vec![StreamData::dense(values)]))
    }
}

fn check_squares(reader: &mut Reader) {
    let mut seen = 0;
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(7)).expect("an epoch") {
        let minibatch = minibatch.expect("a minibatch");
        let squares = minibatch.stream("squares").and_then(|stream| stream.dense::<f32>()).expect("squares");
        let features =
            minibatch.stream("features").and_then(|stream| stream.dense::<f32>()).expect("features");
        for ((key, square), features) in minibatch.keys().iter().zip(squares).zip(features.chunks_exact(2)) {
            assert_eq!((*square, features[0]), ((key * key) as f32, *key as f32));
            seen += 1;
        }
    }
    assert_eq!(seen, 20);
}

#[test]
fn user_formats_are_joined_with_files() {
    let (folder, ctf) = digits();
    let mut reader = Reader::builder().ctf(ctf.clone()).deserializer("squares", Squares::below(20)).open();
    check_squares(reader.as_mut().expect("a reader"));
    // The configuration determines the position of a user-defined deserializer among the others.
    let config = format!(
        "randomize = true\ndeserializers = ( [ type = \"squares\" ] : {} )",
        ctf.to_configuration().expect("a text")
    );
    let file = write(folder.path(), "digits.cntk", &config);
    let reader = Reader::builder().config_file(file).and_then(|builder| {
        builder
            .deserializer("squares", Squares::below(20))
            .options(ReaderOptions::new().randomization_seed(3))
            .open()
    });
    let mut reader = reader.expect("a reader");
    assert_eq!(reader.members()[0].name(), "squares");
    check_squares(&mut reader);
}

#[test]
fn unjoinable_formats_explain_what_is_missing() {
    let (_folder, ctf) = digits();
    let late = || Squares { is_listed: false, ..Squares::below(20) };
    let cntk = "Currently user defined deserializers do not support composability. Please specify a single deserializer.";
    let error =
        Reader::builder().ctf(ctf.clone()).deserializer("squares", late()).open().expect_err("no list");
    assert_eq!((error.message(), error.kind()), (cntk, ErrorKind::Config));
    for text in ["'squares'", "`sequences` in Rust", "`list_sequences` in C,", "`GetSequences` in C++"] {
        assert!(error.detail().contains(text), "{text}: {}", error.detail());
    }
    // If it has the list, it is refused only if its section forbids joining, and the error names
    // nothing as missing.
    for (squares, lacks_list) in [(Squares::below(20), false), (late(), true)] {
        let config = format!(
            "deserializers = ( [ type = \"squares\" ; composable = false ] : {} )",
            ctf.to_configuration().expect("a text")
        );
        let builder = Reader::builder().config_text(&config).expect("a configuration");
        let error = builder.deserializer("squares", squares).open().expect_err("no list");
        assert_eq!(error.message(), cntk);
        assert_eq!(error.detail().contains("`sequences` in Rust"), lacks_list, "{}", error.detail());
        assert_eq!(error.detail().contains("`composable = false`"), !lacks_list, "{}", error.detail());
    }
    // Alone it can be read.
    Reader::builder().deserializer("squares", late()).open().expect("a reader");
}

#[test]
fn mistakes_are_reported_on_opening() {
    let (_folder, ctf) = digits();
    let open = |builder: cntk_reader::Builder| -> Error { builder.open().expect_err("a mistake") };
    let twice = Reader::builder().deserializer("a", Squares::below(3)).deserializer("a", Squares::below(3));
    assert!(open(twice).to_string().contains("'a'"));
    let error = open(Reader::builder());
    assert_eq!(error.kind(), ErrorKind::Config);
    let missing = open(Reader::builder().ctf(CtfDeserializer::new("no/such.ctf").dense("x", 1)));
    assert_eq!((missing.kind(), missing.location().file.as_deref()), (ErrorKind::Io, Some("no/such.ctf")));
    let one_file =
        "readerType = \"CNTKTextFormatReader\"\nfile = f\ninput = [ x = [ dim = 1 ; format = dense ] ]";
    let config: Config = one_file.parse().expect("a configuration");
    assert!(open(Reader::builder().config(config).ctf(ctf)).to_string().contains("deserializers = ( ... )"));
    assert!(Reader::builder().config_text("a = [").is_err());
    assert!(Reader::builder().config_file("no/such.cntk").is_err());
    open(Reader::builder().cbf(CbfDeserializer::new("no/such.cbf")));
}

#[test]
fn minibatches_outlive_their_reader_on_other_threads() {
    let (_folder, ctf) = digits();
    let mut reader = open(&ctf, in_order());
    let minibatch = reader.epoch(Epoch::sweeps(1).minibatch_size(20)).expect("an epoch").next();
    let minibatch = minibatch.expect("one").expect("a minibatch");
    let thread = std::thread::spawn(move || -> Result<_> {
        drop(reader);
        Ok((minibatch.stream("features")?.dense::<f32>()?.iter().sum::<f32>(), minibatch.key_text(19)))
    });
    let (sum, key) = thread.join().expect("a thread").expect("values");
    assert_eq!((sum, key.as_deref()), (390.0, Some("19")));
}

#[test]
fn messages_number_the_deserializers_of_a_builder() {
    let builder = Reader::builder().ctf(CtfDeserializer::new("a.ctf").dense("x", 1));
    let result = builder.ctf(CtfDeserializer::new("b.ctf").dense("y", 0)).open();
    let error = result.map(drop).expect_err("a sample without values");
    assert_eq!(
        error.message(),
        "The value of 'dim' in the stream 'y' of CtfDeserializer (deserializer 2) is 0."
    );
}
