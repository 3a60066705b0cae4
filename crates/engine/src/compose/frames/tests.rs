//! Frames of fake utterances that consist of keys and lengths: tables, keys, cut views, and joins
//! in both orders.

use super::*;
use crate::compose::bundle::{JoinOptions, Member};
use crate::pack::Packing;
use crate::testing::{Calls, Recorder, logged};
use cntk_reader_core::format::diagnostics::NoDiagnostics;
use cntk_reader_core::format::loading::load;
use cntk_reader_core::format::{JoinedByKey, LeafChunk};
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::sequence::{SequenceView, ValueForm, ViewKind};
use proptest::prelude::*;

/// Utterances, each with a key and a number of samples. The value of a sample is
/// `1000 * key + its number`.
#[derive(Clone)]
struct Fake {
    chunks: Vec<Vec<(u64, u32)>>,
    lengths: Vec<Vec<u32>>,
    infos: Vec<ChunkInfo>,
    streams: Vec<StreamInfo>,
    mode: InFrameMode,
    expanded: bool,
}

struct FakeChunk(Vec<Vec<u8>>);

fn fake(name: &str, mode: InFrameMode, chunks: &[&[(u64, u32)]]) -> Fake {
    let lengths = |chunk: &[(u64, u32)]| chunk.iter().map(|&(_, length)| length).collect::<Vec<_>>();
    let info = |chunk: &&[(u64, u32)]| ChunkInfo {
        samples: lengths(chunk).iter().map(|&length| u64::from(length)).sum(),
        sequences: chunk.len() as u32,
    };
    Fake {
        chunks: chunks.iter().map(|chunk| chunk.to_vec()).collect(),
        lengths: chunks.iter().map(|chunk| lengths(chunk)).collect(),
        infos: chunks.iter().map(info).collect(),
        streams: vec![StreamInfo::dense(name, &[1])],
        mode,
        expanded: false,
    }
}

impl ChunkTable for Fake {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.infos
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        Lengths::Each(&self.lengths[chunk as usize])
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl Fake {
    /// Loads a chunk.
    fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let values = |&(key, length): &(u64, u32)| {
            (0..length).flat_map(|sample| (1000.0 * key as f32 + sample as f32).to_ne_bytes()).collect()
        };
        Ok(Arc::new(FakeChunk(self.chunks[chunk as usize].iter().map(values).collect())))
    }
}

impl ChunkSource for Fake {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts::ON_POOL
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    fn memory(&self) -> SourceMemory {
        SourceMemory::default()
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        7
    }

    fn reported_keys(&self, sequences: &[SequenceId], _truncated: bool, keys: &mut Vec<SequenceKey>) {
        self.keys(sequences, keys);
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        sampler.skip();
        Ok(())
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        &NoDiagnostics
    }
}

impl JoinedByKey for Fake {}

impl Deserializer for Fake {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts { in_frame_mode: self.mode, is_expanded: self.expanded, ..SequenceFacts::PLAIN }
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        keys.extend(sequences.iter().map(|id| self.chunks[id.chunk as usize][id.index as usize].0));
    }
    fn prepare_to_find(&self) -> Result<()> {
        Ok(())
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        (0..).zip(&self.chunks).find_map(|(chunk, sequences)| {
            let index = sequences.iter().position(|&(other, _)| other == key)? as u32;
            Some(SequenceId { chunk, index })
        })
    }
}

impl LeafChunk for FakeChunk {
    fn sequence(&self, _: usize, index: u32) -> Loaded<'_> {
        let values = &self.0[index as usize];
        Loaded::Data(SequenceView {
            samples: values.len() as u32 / 4,
            values,
            form: ValueForm::Whole,
            kind: ViewKind::Dense,
        })
    }
}

const OPTIONS: JoinOptions<'_> =
    JoinOptions { corpus: &Corpus::Numeric, log: Logger::new(0), packing: Packing::Frame };

fn numeric() -> Arc<Corpus> {
    Arc::new(Corpus::Numeric)
}

fn member(fake: Fake) -> Member {
    Member::new(fake.streams[0].name.clone(), Arc::new(fake))
}

/// Joins utterances, then splits them into frames.
fn frames_of_bundle(members: Vec<Fake>) -> Result<Arc<Frames>> {
    Frames::of_bundle(Bundle::new(members.into_iter().map(member).collect(), &OPTIONS)?, &numeric())
        .map(Arc::new)
}

/// Splits utterances into frames, then joins the frames, as CNTK does.
fn bundle_of_frames(members: Vec<Fake>) -> Result<Arc<Bundle>> {
    let frames = |fake: Fake| {
        let Member { name, deserializer, .. } = member(fake);
        let deserializer: Arc<dyn Deserializer> = match deserializer.sequence_facts().in_frame_mode {
            InFrameMode::Whole => deserializer,
            _ => Arc::new(Frames::new(deserializer, &numeric())?),
        };
        Ok(Member::new(name, deserializer))
    };
    Bundle::new(members.into_iter().map(frames).collect::<Result<_>>()?, &OPTIONS).map(Arc::new)
}

/// A frame: its key, its length, and its values in each stream, or `None` if invalid.
type Seen = (u64, u32, Vec<Option<Vec<f32>>>);

fn all<D: Deserializer + 'static>(deserializer: &Arc<D>) -> Vec<Vec<Seen>> {
    let mut chunks = Vec::new();
    for (id, info) in (0..).zip(deserializer.chunks()) {
        let chunk = load(deserializer.clone(), id).expect("a chunk");
        let ids: Vec<_> = (0..info.sequences).map(|index| SequenceId { chunk: id, index }).collect();
        let (mut keys, mut reported) = (Vec::new(), Vec::new());
        deserializer.keys(&ids, &mut keys);
        deserializer.reported_keys(&ids, false, &mut reported);
        assert_eq!(keys, reported);
        let lengths = deserializer.lengths(id);
        let seen: Vec<Seen> = (0..info.sequences)
            .zip(keys)
            .map(|(index, key)| {
                let value = |stream| match chunk.sequence(stream, index) {
                    Loaded::Data(view) => {
                        assert_eq!(view.samples as usize * 4, view.values.len());
                        let values = view.values.chunks_exact(4);
                        Some(
                            values
                                .map(|four| f32::from_ne_bytes(four.try_into().expect("4 bytes")))
                                .collect(),
                        )
                    }
                    Loaded::Invalid => None,
                    Loaded::Skipped => panic!("nothing is skipped"),
                };
                let streams = (0..deserializer.streams().len()).map(value).collect();
                (key, lengths.get(index), streams)
            })
            .collect();
        assert_eq!(info.samples, seen.iter().map(|&(_, length, _)| u64::from(length)).sum::<u64>());
        chunks.push(seen);
    }
    chunks
}

/// Returns the frame `sample` of each stream's utterance.
fn frame(key: u64, sample: u32, streams: &[bool]) -> Seen {
    let value = |&is_there: &bool| is_there.then(|| vec![1000.0 * key as f32 + sample as f32]);
    (key, 1, streams.iter().map(value).collect())
}

#[test]
fn frames_come_in_the_order_of_their_utterances() {
    let frames = Frames::new(
        Arc::new(fake("x", InFrameMode::SlicedStrictly, &[&[(4, 2), (9, 1)], &[(5, 3)]])),
        &numeric(),
    )
    .map(Arc::new)
    .expect("frames");
    let one = |key, sample| frame(key, sample, &[true]);
    assert_eq!(all(&frames), [vec![one(4, 0), one(4, 1), one(9, 0)], vec![one(5, 0), one(5, 1), one(5, 2)]]);
    assert_eq!(frames.find(9), Some(SequenceId { chunk: 0, index: 2 }));
    assert_eq!(frames.find(3), None);
    let mut listed = Vec::new();
    frames.list(1, &mut listed).expect("a list");
    let listed: Vec<_> =
        listed.iter().map(|info| (info.id.index, info.key, info.sample, info.samples)).collect();
    assert_eq!(listed, [(0, 5, 0, 1), (1, 5, 1, 1), (2, 5, 2, 1)]);
}

#[test]
fn frames_past_the_end_of_labels_are_invalid() {
    let members = || {
        vec![
            fake("x", InFrameMode::SlicedStrictly, &[&[(1, 2), (2, 3), (3, 1)]]),
            fake("y", InFrameMode::Sliced, &[&[(3, 4), (2, 1)], &[(1, 2)]]),
        ]
    };
    let expected: Vec<Seen> = vec![
        frame(1, 0, &[true, true]),
        frame(1, 1, &[true, true]),
        frame(2, 0, &[true, true]),
        frame(2, 1, &[true, false]),
        frame(2, 2, &[true, false]),
        frame(3, 0, &[true, true]),
    ];
    assert_eq!(all(&frames_of_bundle(members()).expect("frames")), std::slice::from_ref(&expected));
    assert_eq!(all(&bundle_of_frames(members()).expect("a bundle")), [expected]);
}

#[test]
fn too_few_frames_of_features_are_cntks_error() {
    let members = || {
        vec![
            fake("x", InFrameMode::Sliced, &[&[(1, 2), (2, 6), (3, 1)]]),
            fake("y", InFrameMode::SlicedStrictly, &[&[(1, 2), (2, 5), (3, 1)]]),
            fake("z", InFrameMode::SlicedStrictly, &[&[(1, 2), (2, 3), (3, 0)]]),
        ]
    };
    let message =
        "Sequence with key '2' has '3' frame(s), whereas the primary sequence expects at least '4' frames";
    for error in [frames_of_bundle(members()).err(), bundle_of_frames(members()).err()] {
        let error = error.expect("an error");
        assert_eq!(error.message(), message);
        assert_eq!(error.location().key.as_deref(), Some("2"));
    }
    // A sequence missing from an earlier member is not looked up in later ones.
    let mut without = members();
    without.insert(1, fake("w", InFrameMode::Sliced, &[&[(1, 2)]]));
    assert_eq!(all(&frames_of_bundle(without).expect("frames"))[0].len(), 2);
}

#[test]
fn unsliced_members_give_whole_sequences() {
    let members = |name: &str| {
        let mut whole = fake(name, InFrameMode::Whole, &[&[(2, 4), (1, 1)]]);
        whole.streams[0].defines_mb_size = name == "definer";
        vec![fake("x", InFrameMode::SlicedStrictly, &[&[(1, 2), (2, 2)]]), whole]
    };
    let whole = |key: u64, sample: u32, length: u32| {
        let own = vec![1000.0 * key as f32 + sample as f32];
        let all: Vec<f32> = (0..length).map(|sample| 1000.0 * key as f32 + sample as f32).collect();
        (key, length, vec![Some(own), Some(all)])
    };
    let expected = vec![whole(1, 0, 1), whole(1, 1, 1), whole(2, 0, 4), whole(2, 1, 4)];
    for name in ["whole", "definer"] {
        assert_eq!(all(&frames_of_bundle(members(name)).expect("frames")), std::slice::from_ref(&expected));
        assert_eq!(all(&bundle_of_frames(members(name)).expect("a bundle")), std::slice::from_ref(&expected));
    }
    let mut primary_defines = members("whole");
    primary_defines[0].streams[0].defines_mb_size = true;
    let frames = frames_of_bundle(primary_defines).expect("frames");
    assert_eq!((frames.chunks()[0].samples, frames.lengths(0)), (4, Lengths::Ones));
}

#[test]
fn expanded_sample_is_delivered_with_each_frame() {
    let mut expanded = fake("i", InFrameMode::SlicedStrictly, &[&[(1, 1), (2, 1)]]);
    expanded.expanded = true;
    let members = vec![fake("x", InFrameMode::SlicedStrictly, &[&[(1, 2), (2, 1)]]), expanded];
    let frames = frames_of_bundle(members).expect("frames");
    let seen = |key: u64, sample: f32| {
        let first = 1000.0 * key as f32;
        (key, 1, vec![Some(vec![first + sample]), Some(vec![first])])
    };
    assert_eq!(all(&frames), [[seen(1, 0.0), seen(1, 1.0), seen(2, 0.0)]]);
}

#[test]
fn unsliced_primary_gets_the_first_frame() {
    let members = vec![
        fake("t", InFrameMode::Whole, &[&[(2, 1), (1, 1)]]),
        fake("x", InFrameMode::SlicedStrictly, &[&[(1, 2), (2, 2)]]),
    ];
    let bundle = bundle_of_frames(members).expect("a bundle");
    assert_eq!(all(&bundle), [[frame(2, 0, &[true, true]), frame(1, 0, &[true, true])]]);
}

#[test]
fn frame_count_overflow_is_an_error() {
    let error =
        Frames::new(Arc::new(fake("x", InFrameMode::Sliced, &[&[(1, u32::MAX), (2, 1)]])), &numeric());
    let error = error.err().expect("an error");
    assert_eq!(error.message(), "Chunk 0 has more than 4294967295 frames.");
}

/// Utterances of a deserializer that is not split by itself.
#[test]
fn mode_may_differ_from_the_deserializers() {
    let whole = || Arc::new(fake("x", InFrameMode::Whole, &[&[(1, 2)]]));
    let expected = [vec![frame(1, 0, &[true]), frame(1, 1, &[true])]];
    assert_eq!(all(&Arc::new(Frames::new(whole(), &numeric()).expect("frames"))), expected);
    for (mode, is_exact) in [
        (InFrameMode::Whole, false),
        (InFrameMode::Sliced, false),
        (InFrameMode::SlicedStrictly, false),
        (InFrameMode::SlicedExactly, true),
    ] {
        let frames = Arc::new(Frames::taken_by(whole(), mode, &numeric()).expect("frames"));
        assert_eq!(all(&frames), expected);
        let cut = frames.cuts[0].expect("a cut");
        assert_eq!((cut.is_exact, cut.value_bytes), (is_exact, 4));
    }
}

#[test]
fn frames_are_matched_by_number() {
    let of = |key, sample| {
        let id = SequenceId { chunk: 7, index: 7 };
        SequenceInfo { id, samples: 1, key, sample }
    };
    for (mode, is_strict) in [
        (InFrameMode::Whole, false),
        (InFrameMode::Sliced, false),
        (InFrameMode::SlicedStrictly, true),
        (InFrameMode::SlicedExactly, true),
    ] {
        let inner = Arc::new(fake("x", mode, &[&[(4, 2), (9, 1)], &[(5, 3), (6, 2)]]));
        let frames = Frames::new(inner, &numeric()).expect("frames");
        let found = |key, sample| frames.matching(&of(key, sample)).expect("a match");
        assert_eq!(found(6, 1), Some((SequenceId { chunk: 1, index: 4 }, 1)));
        assert_eq!(found(9, 0), Some((SequenceId { chunk: 0, index: 2 }, 1)));
        assert_eq!(found(8, 0), None);
        let past = frames.matching(&of(5, 3));
        match is_strict {
            false => assert_eq!(past.expect("a match"), Some((SequenceId { chunk: 1, index: 5 }, 1))),
            true => {
                let message = "Sequence with key '5' has '3' frame(s), whereas the primary sequence expects at least '4' frames";
                assert_eq!(past.expect_err("too short").message(), message);
            }
        }
    }
}

/// Frames of the bundle of `x` and `y`, of which `y` needs a sample for each frame.
fn exact(chunks: [&[&[(u64, u32)]]; 2]) -> Arc<Frames> {
    let [x, y] = [("x", chunks[0]), ("y", chunks[1])]
        .map(|(name, chunks)| member(fake(name, InFrameMode::SlicedStrictly, chunks)));
    let y = Member { mode: InFrameMode::SlicedExactly, ..y };
    let bundle = Bundle::new(vec![x, y], &OPTIONS).expect("a bundle");
    Arc::new(Frames::of_bundle(bundle, &numeric()).expect("frames"))
}

#[test]
fn text_needs_a_line_for_each_frame() {
    let frames = exact([&[&[(1, 2), (2, 2), (3, 1)]], &[&[(1, 3), (2, 2), (3, 1)]]]);
    let (chunk, lines) = logged(|| {
        let chunk = load(frames.clone(), 0).expect("a chunk");
        chunk.warn();
        chunk
    });
    let line = "The sequence '1' has 2 frames, and 3 of its lines have a sample of the stream 'y': its frames are invalid. \
                In frame mode, each line needs a sample of each stream.";
    assert_eq!(lines, [(Level::Warning, line.to_owned())]);
    let is_valid = |stream, index| matches!(chunk.sequence(stream, index), Loaded::Data(_));
    assert_eq!([0, 1, 2, 3, 4, 5].map(|index| is_valid(0, index)), [true, true, true, true, true, false]);
    assert_eq!([0, 1, 2, 3, 4, 5].map(|index| is_valid(1, index)), [false, false, true, true, true, false]);
}

#[test]
fn ten_utterances_without_all_lines_are_named() {
    let utterances = |keys: std::ops::Range<u64>, length| keys.map(|key| (key, length)).collect::<Vec<_>>();
    let (x, y) = ([utterances(0..7, 2), utterances(7..14, 2)], [utterances(0..7, 3), utterances(7..14, 3)]);
    let frames = exact([&[&x[0], &x[1]], &[&y[0], &y[1]]]);
    let (_, lines) = logged(|| [0, 1].map(|id| load(frames.clone(), id).expect("a chunk").warn()));
    assert!(
        lines.iter().zip(0..).all(|((_, line), key)| line.starts_with(&format!("The sequence '{key}' ")))
    );
    assert_eq!(lines.len(), 10);
}

/// A frame past the end of its labels has no sequence, neither there nor in the next chunk.
#[test]
fn frames_past_the_end_use_no_sequence() {
    let members = vec![
        fake("x", InFrameMode::SlicedStrictly, &[&[(1, 3)]]),
        fake("y", InFrameMode::Sliced, &[&[(1, 2)], &[(2, 1)]]),
    ];
    let (bundle, lines) = logged(|| bundle_of_frames(members));
    assert_eq!(all(&bundle.expect("a bundle"))[0].len(), 3);
    let is_unused = |line: &str| line.starts_with("Not used: 1 of 3 sequences of 'y': 2. ");
    assert!(lines.iter().any(|(_, line)| is_unused(line)), "{lines:?}");
}

/// Frames of whole sequences of a primary, of which each counts as several samples.
#[test]
fn weights_are_the_lengths_of_frames() {
    let members = |lengths: &[(u64, u32)]| {
        let mut definer = fake("y", InFrameMode::Whole, &[lengths]);
        definer.streams[0].defines_mb_size = true;
        vec![fake("x", InFrameMode::SlicedStrictly, &[&[(1, 2), (2, 1)]]), definer]
    };
    let frames = frames_of_bundle(members(&[(1, 3), (2, 5)])).expect("frames");
    assert_eq!(frames.lengths(0), Lengths::Each(&[3, 3, 5]));
    assert_eq!(frames.chunks(), [ChunkInfo { samples: 11, sequences: 3 }]);
    let mut listed = Vec::new();
    frames.list(0, &mut listed).expect("a list");
    assert_eq!(
        listed.iter().map(|info| (info.sample, info.samples)).collect::<Vec<_>>(),
        [(0, 3), (1, 3), (0, 5)]
    );
    let matched = frames.matching(&listed[2]).expect("a match");
    assert_eq!(matched, Some((SequenceId { chunk: 0, index: 2 }, 5)));
    let tables = frames.chunks[0].bytes() + 3 * 4 + size_of::<FrameIndex>() + size_of::<ChunkInfo>();
    assert_eq!(frames.memory().index, frames.inner.memory().index + tables as u64);
    // A chunk whose frames count as no samples disappears.
    let error = frames_of_bundle(members(&[(1, 0), (2, 0)])).err().expect("an error");
    assert!(error.message().starts_with("Could not reconcile data"), "{error}");
    assert_eq!(frames_of_bundle(members(&[(1, 0), (2, 1)])).expect("frames").chunks()[0].samples, 1);
}

fn recorded(change: impl FnOnce(&mut Recorder)) -> (Arc<Frames>, Calls) {
    let mut recorder = Recorder::new("a", &[&[(4, 2), (9, 1)], &[(5, 3)]]).with_stream("b");
    change(&mut recorder);
    let calls = recorder.calls.clone();
    (Arc::new(Frames::new(Arc::new(recorder), &numeric()).expect("frames")), calls)
}

#[test]
fn wrapped_deserializer_is_asked() {
    let (frames, calls) = recorded(|recorder| {
        recorder.number = 3;
        recorder.facts.is_foreign = true;
        recorder.sequence_facts.is_asked_in_place = true;
        recorder.sequence_facts.counts_keys = true;
    });
    assert_eq!(frames.facts(), SourceFacts { is_foreign: true, ..SourceFacts::ON_POOL });
    let facts = SequenceFacts { is_asked_in_place: true, ..SequenceFacts::PLAIN };
    assert_eq!((frames.sequence_facts(), frames.file_bytes()), (facts, Some(3)));
    assert!(!recorded(|_| ()).0.sequence_facts().is_asked_in_place);
    let tables: usize = frames.chunks.iter().map(|index| index.bytes() + size_of::<FrameIndex>()).sum();
    let index = 30 + (tables + 2 * size_of::<ChunkInfo>()) as u64;
    assert_eq!(frames.memory(), SourceMemory { chunks: 3, index });
    assert_eq!(frames.fingerprint(None), mix(mix(mix(3, 1, 2), 3, 3), 3, 3));
    frames.prepare_to_find().expect("memory");
    frames.sample_content(Some(1), &mut Sampler::new()).expect("samples");
    let diagnostics = frames.diagnostics();
    diagnostics.forget_errors();
    diagnostics.end_sweep();
    assert_eq!(calls.take(), ["a.prepare_to_find", "a.sample_content", "a.forget_errors", "a.end_sweep"]);
    assert_eq!(diagnostics.remarks()[0].message, "a");
    assert_eq!(diagnostics.key_text(5, &Corpus::Numeric), "a-5");
    assert!(diagnostics.check(0, 1).is_none());
    let ids = [(0, 0), (0, 1), (0, 2), (1, 2)].map(|(chunk, index)| SequenceId { chunk, index });
    let places = ids.map(|id| diagnostics.location(id, 1));
    assert_eq!(places, [0, 0, 1, 100].map(|offset| Location::in_file("a", Some(offset), Some(1))));
    for (truncated, more) in [(false, 1000), (true, 2000)] {
        let mut keys = Vec::new();
        frames.reported_keys(&ids, truncated, &mut keys);
        assert_eq!(keys, [4, 4, 9, 5].map(|key| key + more));
    }
}

#[test]
fn wrapped_chunk_is_asked() {
    let (frames, calls) = recorded(|recorder| {
        recorder.invalid = Some((1, 1));
        recorder.has_errors = true;
        recorder.sequence_facts.is_expanded = true;
    });
    let chunk = load(frames, 0).expect("a chunk");
    let value = |loaded: Loaded<'_>| match loaded {
        Loaded::Data(view) => Some(f32::from_ne_bytes(view.values.try_into().expect("one value"))),
        _ => None,
    };
    for (index, expected) in [
        [Some(Recorder::value(4, 0, 0)), Some(Recorder::value(4, 0, 1))],
        [Some(Recorder::value(4, 1, 0)), Some(Recorder::value(4, 1, 1))],
        [Some(Recorder::value(9, 0, 0)), None],
        [None, None],
    ]
    .into_iter()
    .enumerate()
    {
        let mut loaded = [Loaded::Skipped; 2];
        chunk.sequences(index as u32, &mut loaded);
        assert_eq!(loaded.map(value), expected, "{index}");
        assert_eq!([0, 1].map(|stream| value(chunk.sequence(stream, index as u32))), expected, "{index}");
    }
    assert_eq!(chunk.failure(1, 2).expect("a failure").message(), "a0.failure 1 1");
    assert!(chunk.failure(1, 3).is_none());
    assert!(chunk.is_expanded(0));
    assert!(!load(recorded(|_| ()).0, 0).expect("a chunk").is_expanded(0));
    chunk.fetch(2, 7, &mut Parts::default()).expect("fetched");
    chunk.fetch(3, 7, &mut Parts::default()).expect("no such frame");
    chunk.prefetch(0, Ahead::Far);
    chunk.warn();
    assert!(chunk.errors().has_uncounted());
    chunk.errors().commit().expect("tolerated");
    assert_eq!(calls.take(), ["a0.fetch 1 7", "a0.warn", "a0.commit"]);
    assert!(chunk.listing().is_none());
}

/// Creates utterances with the given keys and lengths, in chunks of `size`.
fn random(name: &str, mode: InFrameMode, keys: &[u64], lengths: &[u32], size: usize) -> Fake {
    let utterances: Vec<_> = keys.iter().map(|&key| (key, lengths[key as usize % lengths.len()])).collect();
    fake(name, mode, &utterances.chunks(size).collect::<Vec<_>>())
}

proptest! {
    /// Joining utterances must give the same result as joining frames, which is CNTK's way.
    #[test]
    fn same_as_joining_frame_by_frame(
        primary in Just((0..40u64).collect::<Vec<_>>()).prop_shuffle(),
        secondary in proptest::sample::subsequence((0..44u64).collect::<Vec<_>>(), 1..44).prop_shuffle(),
        lengths in proptest::collection::vec(0..9u32, 5..20),
        others in proptest::collection::vec(0..9u32, 5..20),
        kinds in proptest::collection::vec(0..3usize, 1..4),
        definer in 0..5usize,
        sizes in (1..9usize, 1..9usize),
    ) {
        let modes = [InFrameMode::Whole, InFrameMode::Sliced, InFrameMode::SlicedStrictly];
        let members = || {
            let mut members = vec![random("p", InFrameMode::SlicedStrictly, &primary, &lengths, sizes.0)];
            for (number, &kind) in kinds.iter().enumerate() {
                // Lengths of strict members mostly match.
                let lengths = if kind == 2 && number < 2 { &lengths } else { &others };
                members.push(random(&format!("s{number}"), modes[kind], &secondary, lengths, sizes.1));
            }
            if let Some(definer) = members.get_mut(definer) {
                definer.streams[0].defines_mb_size = true;
            }
            members
        };
        match (frames_of_bundle(members()), bundle_of_frames(members())) {
            (Ok(frames), Ok(bundle)) => prop_assert_eq!(all(&frames), all(&bundle)),
            (frames, bundle) => {
                let message = |error: Option<Error>| error.map(|error| error.message().to_owned());
                prop_assert_eq!(message(frames.err()), message(bundle.err()));
            }
        }
    }
}
