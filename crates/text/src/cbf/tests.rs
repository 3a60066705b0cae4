//! Tests on individual bytes: the examples, options, and failing reads.

use super::sample::{DUMP, bytes_of};
use super::*;
use crate::cbf::BinaryOptions;
use cntk_reader_core::file::faults::{Fault, Faults, Operation};
use cntk_reader_core::format::Loaded;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::testing::system_message;

/// A file in the layout of CNTK's public page: `x` dense 2, `s` sparse 5, two sequences.
pub const DOCUMENTED: &str = "\
    010000000000000001000000000000000200000001000000780000000000000000020000000100000073\
    010000000000000000000000010000000500000000000000000000000200000003000000\
    0000803f000000400000a0400000d0400500000000008040000040400000803f0000003f000080bf\
    0000000001000000040000000700000008000000000000000200000005000000";

pub fn options(file: &std::path::Path) -> BinaryOptions {
    BinaryOptions {
        files: cntk_reader_core::format::files::Files::one(file.display().to_string()),
        shared_ids: false,
        renamed: Vec::new(),
        ids: Vec::new(),
        ignores_unmatched: false,
        keep_data_in_memory: false,
        log: Logger::new(0),
        element: ElementType::Float,
    }
}

pub fn opened(bytes: &[u8], change: impl FnOnce(&mut BinaryOptions)) -> Result<BinaryDeserializer> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data.cbf");
    std::fs::write(&path, bytes).expect("writing");
    let mut options = options(&path);
    change(&mut options);
    BinaryDeserializer::open(&options, &Corpus::Numeric)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Returns a dense sequence as its number of samples and its values.
fn dense(chunk: &dyn Chunk, stream: usize, index: u32) -> (u32, Vec<f32>) {
    match chunk.sequence(stream, index) {
        Loaded::Data(view) => (view.samples, floats(view.values)),
        other => panic!("{other:?}"),
    }
}

fn sparse(chunk: &dyn Chunk, stream: usize, index: u32) -> Vec<Vec<(i32, f32)>> {
    let Loaded::Data(view) = chunk.sequence(stream, index) else { panic!("no data") };
    let places = view.sparse().expect("a sparse stream");
    let indices = places.indices.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
    let entries: Vec<(i32, f32)> = indices.zip(floats(view.values)).collect();
    let base = places.offsets[0];
    let sample = |pair: &[u32]| entries[(pair[0] - base) as usize..(pair[1] - base) as usize].to_vec();
    places.offsets.windows(2).map(sample).collect()
}

#[test]
fn reads_files_from_cntks_converter() {
    let dump = bytes_of(DUMP);
    assert_eq!(dump.len(), 245);
    let file = opened(&dump, |_| {}).expect("a file");
    let names: Vec<_> = file.streams().iter().map(|stream| (stream.name.as_str(), stream.shape[0])).collect();
    assert_eq!(names, [("features", 2), ("words", 5)]);
    assert_eq!(
        file.chunks(),
        [ChunkInfo { samples: 4, sequences: 2 }, ChunkInfo { samples: 1, sequences: 1 }]
    );
    assert_eq!(file.lengths(0), Lengths::Each(&[2, 2]));
    let (first, second) = (file.load(0).expect("a chunk"), file.load(1).expect("a chunk"));
    assert_eq!(dense(&*first, 0, 0), (2, vec![1.0, 2.0, 3.0, 4.0]));
    assert_eq!(dense(&*first, 0, 1), (1, vec![5.0, 6.5]));
    assert_eq!(dense(&*second, 0, 0), (1, vec![7.0, 8.0]));
    assert_eq!(sparse(&*first, 1, 0), [vec![(0, 4.0), (1, 3.0)]]);
    assert_eq!(sparse(&*first, 1, 1), [vec![(4, 1.0)], vec![(2, 0.5), (3, -1.0)]]);
    assert_eq!(sparse(&*second, 1, 0), [vec![(0, 9.0)]]);
}

#[test]
fn reads_the_documented_layout() {
    let bytes = bytes_of(DOCUMENTED);
    assert_eq!(bytes.len(), 150);
    let file = opened(&bytes, |_| {}).expect("a file");
    assert_eq!(file.chunks(), [ChunkInfo { samples: 3, sequences: 2 }]);
    assert_eq!(file.lengths(0), Lengths::Each(&[1, 2]));
    let chunk = file.load(0).expect("a chunk");
    assert_eq!(dense(&*chunk, 0, 0), (1, vec![1.0, 2.0]));
    assert_eq!(dense(&*chunk, 0, 1), (1, vec![5.0, 6.5]));
    assert_eq!(sparse(&*chunk, 1, 0), [vec![(0, 4.0), (1, 3.0)]]);
    assert_eq!(sparse(&*chunk, 1, 1), [vec![(4, 1.0)], vec![(2, 0.5), (3, -1.0)]]);
}

#[test]
fn keys_are_ordinals_and_are_found() {
    let file = opened(&bytes_of(DUMP), |_| {}).expect("a file");
    let ids = [(0, 0), (0, 1), (1, 0)].map(|(chunk, index)| SequenceId { chunk, index });
    let mut keys = Vec::new();
    file.keys(&ids, &mut keys);
    assert_eq!(keys, [0, 1, 2]);
    assert_eq!([0, 1, 2].map(|key| file.find(key)), ids.map(Some));
    assert_eq!((file.find(3), file.find(u64::MAX)), (None, None));
}

#[test]
fn streams_are_renamed() {
    let open = |renamed: &[(&str, &str)], ignores_unmatched| {
        let renamed = renamed.iter().map(|(new, alias)| ((*new).to_owned(), (*alias).to_owned())).collect();
        opened(&bytes_of(DUMP), |options| {
            (options.renamed, options.ignores_unmatched) = (renamed, ignores_unmatched);
        })
    };
    let names = |renamed: &[(&str, &str)]| {
        let file = open(renamed, true).expect("a file");
        file.streams().iter().map(|stream| stream.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[("words", "features"), ("features", "words")]), ["words", "features"]);
    assert_eq!(names(&[("a", "features"), ("b", "features")]), ["b", "words"]);
    assert_eq!(names(&[("x", "Features"), ("y", "nothing")]), ["features", "words"]);
    // When not standing in for CNTK, names that would be ignored are errors.
    assert!(open(&[("words", "features"), ("features", "words")], false).is_ok());
    let refused = [
        (&[("x", "nothing")][..], "The file has no stream 'nothing', which is to be delivered as 'x'."),
        (&[("q", "q")], "The file has no stream 'q'."),
        (
            &[("a", "features"), ("b", "features")],
            "The stream 'features' of the file has two names: 'a' and 'b'.",
        ),
        (
            &[("words", "features")],
            "Two streams with the same name 'words' have been found. Please rename the duplicate.",
        ),
    ];
    for (renamed, message) in refused {
        let Err(error) = open(renamed, false) else { panic!("{renamed:?} must be refused") };
        assert_eq!(error.message(), message);
    }
}

#[test]
fn chunks_can_be_kept() {
    let file = opened(&bytes_of(DUMP), |options| options.keep_data_in_memory = true).expect("a file");
    let (first, again) = (file.load(0).expect("a chunk"), file.load(0).expect("a chunk"));
    assert!(Arc::ptr_eq(&first, &again));
    let file = opened(&bytes_of(DUMP), |_| {}).expect("a file");
    let (first, again) = (file.load(0).expect("a chunk"), file.load(0).expect("a chunk"));
    assert!(!Arc::ptr_eq(&first, &again));
}

#[test]
fn buffers_of_dropped_chunks_are_kept() {
    let file = opened(&bytes_of(DUMP), |_| {}).expect("a file");
    assert_eq!(file.memory().chunks, 0);
    let chunk = file.load(0).expect("a chunk");
    let held = file.memory().chunks;
    assert!(held >= 108, "{held}");
    drop(chunk);
    assert_eq!(file.memory().chunks, held);
    drop(file.load(0).expect("a chunk"));
    assert_eq!(file.memory().chunks, held);
}

#[test]
fn facts_cover_the_whole_file() {
    let dump = bytes_of(DUMP);
    let file = opened(&dump, |_| {}).expect("a file");
    assert!(file.incremental().is_none());
    assert_eq!(file.sequence_facts(), SequenceFacts { counts_keys: true, ..SequenceFacts::PLAIN });
    assert_eq!((file.file_bytes(), file.chunk_bytes(0), file.chunk_bytes(1)), (Some(245), 108, 36));
    // Chunks, their records, the ordinals of their first sequences, and lengths.
    let index = 2 * size_of::<ChunkInfo>() + 2 * size_of::<ChunkRecord>() + 3 * 8 + 3 * 4;
    assert_eq!(file.memory().index, index as u64);
    let mut reported = vec![5];
    file.reported_keys(&[SequenceId { chunk: 1, index: 0 }; 2], false, &mut reported);
    assert_eq!(reported, [5, 0, 0]);

    let numbers = [(4, 2), (0, 2), (1, 2), (1, 1), (2, 1), (3, 2)];
    let fingerprint = numbers.iter().fold(SEED, |hash, &(a, b)| mix(hash, a, b));
    assert_eq!(file.fingerprint(None), fingerprint);
    let (mut sampler, mut expected) = (Sampler::new(), Sampler::new());
    file.sample_content(None, &mut sampler).expect("a sample");
    expected.bytes(&dump);
    assert_eq!(sampler.finish(), expected.finish());
    let location = file.diagnostics().location(SequenceId { chunk: 1, index: 0 }, 1);
    assert_eq!(location, Location::in_file(file.shared.handle.path(), None, None));
}

#[test]
fn precision_must_be_that_of_the_file() {
    let mut double = bytes_of(DUMP);
    double[0xb9] = 1;
    for (bytes, element, types, found, expected, option) in [
        (bytes_of(DUMP), ElementType::Double, (0, 2), "float", "double", "float_precision"),
        (double, ElementType::Float, (1, 1), "double", "float", "double_precision"),
    ] {
        let error = opened(&bytes, |options| options.element = element).err().expect("an error");
        let message = format!(
            "Unsupported combination of the input data type {} and precision {}. At the moment, both have to match.",
            types.0, types.1
        );
        let detail = format!(
            "The file has values of the type {found}, and the reader {expected}. Set ‹{option}›, or convert the data again."
        );
        assert_eq!(error.templates(), (&*message, &*detail));
        assert_eq!(error.location().stream.as_deref(), Some("features"));
    }
    let names = [ElementType::Float, ElementType::Double, ElementType::Int16].map(name_of);
    assert_eq!(names, ["float", "double", "int16"]);
}

#[test]
fn bytes_before_the_trailer_are_ignored() {
    let mut bytes = bytes_of(DUMP);
    let trailer = bytes.len() - 8;
    bytes.splice(trailer..trailer, [7; 5]);
    let file = opened(&bytes, |_| {}).expect("a file");
    assert!(file.load(1).is_ok());
}

#[test]
fn textual_keys_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = BinaryDeserializer::open(&options(&folder.path().join("none")), &Corpus::symbolic())
        .err()
        .expect("an error");
    assert_eq!(error.message(), "Binary deserializer does not support non-numeric sequence keys.");
    let error = BinaryDeserializer::open(&options(&folder.path().join("none")), &Corpus::Numeric)
        .err()
        .expect("an error");
    assert!(error.message().starts_with("Error opening file"), "{error}");
}

#[cfg(unix)]
#[test]
fn transient_faults_are_retried() {
    for (hex, streams) in [(DUMP, 2), (DOCUMENTED, 2)] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data.cbf");
        std::fs::write(&path, bytes_of(hex)).expect("writing");
        let options = options(&path);
        let faults = Faults::of(options.files.name());
        faults.inject(Operation::Open, Fault::Fails(libc::ESTALE), 0, 4);
        faults.inject(Operation::State, Fault::Fails(libc::EIO), 1, 4);
        faults.inject(Operation::Read, Fault::Fails(libc::EINTR), 0, 30);
        faults.inject(Operation::Read, Fault::Fails(libc::EIO), 0, 4);
        let deserializer = BinaryDeserializer::open(&options, &Corpus::Numeric).expect("it opens");
        faults.inject(Operation::Read, Fault::Fails(libc::EAGAIN), 0, 4);
        faults.inject(Operation::Read, Fault::Reads(5), 0, 3);
        let loaded: Vec<_> = (0..deserializer.chunks().len() as u32)
            .map(|id| deserializer.load(id).expect("it loads"))
            .collect();
        assert_eq!(faults.left(), 0);
        drop(faults);
        let undisturbed = BinaryDeserializer::open(&options, &Corpus::Numeric).expect("it opens");
        for ((id, chunk), info) in (0..).zip(&loaded).zip(undisturbed.chunks()) {
            let other = undisturbed.load(id).expect("it loads");
            for (stream, index) in (0..streams).flat_map(|s| (0..info.sequences).map(move |i| (s, i))) {
                let show = |chunk: &dyn Chunk| format!("{:?}", chunk.sequence(stream, index));
                assert_eq!(show(&**chunk), show(&*other));
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn unreadable_chunk_error_has_its_offset() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data.cbf");
    std::fs::write(&path, bytes_of(DUMP)).expect("writing");
    let options = options(&path);
    let deserializer = BinaryDeserializer::open(&options, &Corpus::Numeric).expect("it opens");
    let faults = Faults::of(options.files.name());
    faults.inject(Operation::Read, Fault::Fails(libc::EIO), 0, 5);
    let error = deserializer.load(1).err().expect("it fails");
    assert_eq!(
        error.message(),
        format!("Error reading file '{}': {}.", options.files.name(), system_message(libc::EIO))
    );
    let start = deserializer.shared.header.chunks[1].start;
    assert!(error.location().offset.is_some_and(|offset| offset >= start), "{error}");
    assert_eq!(error.location().file.as_deref(), Some(options.files.name()));
    assert!(deserializer.load(1).is_ok());
}

/// A file of version 2 with one sequence of one sample of a stream `x`.
pub fn typed(storage: u8, element: u8, dim: u32, classes: u32, sample: &[u8]) -> Vec<u8> {
    let mut file = header::MAGIC.to_le_bytes().to_vec();
    file.extend(header::TYPED_VERSION.to_le_bytes());
    // The sequence's length, and its number of samples.
    file.extend([1u32, 1].into_iter().flat_map(u32::to_le_bytes));
    file.extend(sample);
    let at = file.len() as u64;
    file.extend(header::MAGIC.to_le_bytes());
    file.extend([1u32, 1].into_iter().flat_map(u32::to_le_bytes));
    file.extend([storage, 1, 0, 0, 0, b'x', element]);
    file.extend(dim.to_le_bytes());
    file.extend(classes.to_le_bytes());
    file.extend(12u64.to_le_bytes());
    file.extend([1u32, 1].into_iter().flat_map(u32::to_le_bytes));
    file.extend(at.to_le_bytes());
    file
}

#[test]
fn version_2_files_support_all_types() {
    for &element in ElementType::ALL {
        let sample: Vec<u8> = (0..3 * element.size() as u8).map(|byte| byte % 2).collect();
        for precision in [ElementType::Float, ElementType::Double] {
            let file = typed(0, element as u8, 3, 0, &sample);
            let file = opened(&file, |options| options.element = precision).expect("a file");
            assert_eq!(file.streams(), [StreamInfo::dense("x", &[3]).element(element)]);
            let chunk = file.load(0).expect("a chunk");
            let Loaded::Data(view) = chunk.sequence(0, 0) else { panic!("no data") };
            assert_eq!((view.samples, view.values), (1, &sample[..]));
        }
    }
    let ids = opened(&typed(0, ElementType::Int32 as u8, 1, 7, &[6, 0, 0, 0]), |_| {}).expect("a file");
    let info = StreamInfo::ids("x", 7, Ids { element: ElementType::Int32, padding: 0 });
    assert_eq!(ids.streams(), [info]);
}

#[test]
fn damaged_version_2_files_are_rejected() {
    let bytes = [0; 8];
    for (file, message) in [
        (typed(0, 0, 1, 0, &bytes), "Unsupported input data type 0."),
        (typed(0, 3, 1, 0, &bytes), "Unsupported input data type 3."),
        (typed(0, 255, 1, 0, &bytes), "Unsupported input data type 255."),
        (typed(1, 17, 1, 0, &bytes), "Unsupported input data type 17."),
        (typed(0, 17, 2, 5, &bytes), "A sample has 2 values instead of one class number (of 5 classes)."),
        (typed(0, 17, 0, 0, &bytes), "A stream has the sample dimension 0."),
    ] {
        let error = opened(&file, |_| {}).err().unwrap_or_else(|| panic!("no error: {message}"));
        assert!(error.message().contains("data file was created for version 2."), "{error}");
        assert!(error.to_string().contains(message), "{error} instead of {message}");
    }
    // CNTK rejects all of them, and so does a reader that stands in for it.
    let file = typed(0, ElementType::Float as u8, 1, 0, &[0; 4]);
    opened(&file, |_| {}).expect("a file");
    let error = opened(&file, |options| options.ignores_unmatched = true).err().expect("an error");
    let message = "The reader version is 1, but the data file was created for version 2.";
    assert!(error.message().contains(message), "{error}");
}
