//! Frames of fake utterances that consist of keys and lengths: tables, keys, cut views, and joins
//! in both orders.

use super::*;
use crate::compose::bundle::{JoinOptions, Member};
use crate::pack::Packing;
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
