//! The chunks in memory: what is loaded, kept, released and counted.

use super::*;
use crate::randomize::block::BlockRandomizer;
use crate::randomize::in_order::InOrder;
use crate::randomize::{EpochConfig, WindowSize, WorkerConfig};
use crate::reader::tests::source::{Source, passing};
use cntk_reader_core::sequence::SequenceId;

fn epoch() -> EpochConfig {
    let workers = WorkerConfig { workers: 1, rank: 0, cross_sweeps: true };
    EpochConfig { workers, samples: 1, sweeps: 9, index: 0 }
}

fn store(source: &Arc<Source>) -> ChunkStore {
    ChunkStore::new(Arc::clone(source) as Arc<dyn Deserializer>, Pool::shared().expect("threads"))
}

fn in_order(source: &Arc<Source>) -> InOrder {
    let mut timeline = InOrder::new(Arc::clone(source) as _);
    timeline.start_epoch(&epoch()).expect("an epoch");
    timeline
}

/// Randomized in windows of three chunks.
fn block(source: &Arc<Source>) -> BlockRandomizer {
    let mut timeline = BlockRandomizer::new(Arc::clone(source) as _, WindowSize::Chunks(3), 0);
    timeline.start_epoch(&epoch()).expect("an epoch");
    timeline
}

/// Eight chunks of two sequences.
fn eight() -> Source {
    Source::ones(8, 2)
}

fn sorted(chunks: impl IntoIterator<Item = ChunkId>) -> Vec<ChunkId> {
    let mut chunks: Vec<ChunkId> = chunks.into_iter().collect();
    chunks.sort_unstable();
    chunks
}

/// The chunks in the window, and the chunks that are loading or were loaded ahead.
fn state(store: &ChunkStore) -> (Vec<ChunkId>, Vec<ChunkId>) {
    let resident = (0..).zip(store.chunks().iter()).filter(|(_, chunk)| chunk.is_some());
    let resident = sorted(resident.map(|(chunk, _)| chunk));
    assert_eq!(sorted(store.held.iter().copied()), resident);
    (resident, sorted(store.loads.keys().copied()))
}

/// Selects up to `samples` samples, and loads their chunks.
fn read(store: &mut ChunkStore, timeline: &mut dyn Timeline, samples: u64) -> Result<()> {
    let mut selection = Selection::default();
    timeline.next(samples, samples, &mut selection)?;
    store.follow(timeline, &selection)
}

#[test]
fn window_moves_with_two_chunks_ahead() {
    let source = Arc::new(eight());
    let (mut store, mut timeline) = (store(&source), in_order(&source));
    assert!(store.is_left_by(&timeline));
    for (samples, resident, ahead) in [
        (1, vec![0], vec![1, 2]),
        (1, vec![0], vec![1, 2]),
        (3, vec![1, 2], vec![3, 4]),
        (2, vec![2, 3], vec![4, 5]),
        (8, vec![3, 4, 5, 6, 7], vec![0, 1]),
        (1, vec![7], vec![0, 1]),
        (1, vec![0], vec![1, 2]),
    ] {
        read(&mut store, &mut timeline, samples).expect("chunks");
        assert!(!store.is_left_by(&timeline));
        assert_eq!(state(&store), (resident, ahead), "{:?}", timeline.position());
        assert!(store.needed.iter().all(|is_needed| !is_needed));
    }
    assert_eq!((store.resident.len(), store.needed.len()), (8, 8));
    let loads = sorted(source.loads().into_iter().filter(|&chunk| chunk > 2));
    assert_eq!(loads, [3, 4, 5, 6, 7], "each of them was loaded once");
}

#[test]
fn room_grows_with_the_window() {
    let source = Arc::new(eight());
    let (mut store, mut timeline) = (store(&source), in_order(&source));
    read(&mut store, &mut timeline, 1).expect("chunks");
    assert_eq!((store.resident.len(), store.needed.len()), (3, 3));
}

#[test]
fn first_window_may_be_loaded_before_its_order_is_drawn() {
    for (loading, is_begun) in [(Loading::OnPool, true), (Loading::ByUsers, false), (Loading::AtOnce, false)]
    {
        let mut source = eight();
        source.facts.loading = loading;
        let source = Arc::new(source);
        let (mut store, mut timeline) = (store(&source), block(&source));
        store.begin(&timeline).expect("memory");
        assert_eq!(state(&store).1.len(), if is_begun { 3 } else { 0 }, "{loading:?}");
        read(&mut store, &mut timeline, 1).expect("chunks");
        let (resident, ahead) = state(&store);
        let are_ahead = if loading == Loading::AtOnce { 0 } else { 2 };
        assert_eq!((resident.len(), ahead.len()), (3, are_ahead), "{loading:?}");
        // It does nothing later.
        timeline.seek(15).expect("a position");
        store.begin(&timeline).expect("memory");
        assert_eq!(state(&store), (resident, ahead));
    }
}

#[test]
fn broken_chunk_fails_its_window_once() {
    let source = Arc::new(eight());
    let (mut store, mut timeline) = (store(&source), block(&source));
    let mut window = Window::default();
    timeline.window(0, &mut window);
    let [first, .., last] = window.resident[..] else { panic!("three chunks") };
    source.breaks(last, Some(Error::data("last")));
    source.breaks(first, Some(Error::data("first")));
    let mut selection = Selection::default();
    let select = |chunk| {
        let mut selection = Selection::default();
        selection.sequences.push(SequenceId { chunk, index: 0 });
        selection
    };
    timeline.next(1, 1, &mut selection).expect("a sequence");
    let message = |result: Result<()>| result.err().map(|error| error.message().to_owned());
    assert_eq!(message(store.follow(&timeline, &selection)).as_deref(), Some("first"));
    assert!(!store.is_left_by(&timeline), "the chunks that are whole are in the window");
    assert_eq!(state(&store).0, [window.resident[1]]);
    for (chunk, expected) in [(window.resident[1], None), (last, Some("last")), (first, Some("first"))] {
        assert_eq!(message(store.follow(&timeline, &select(chunk))).as_deref(), expected);
    }
    // The next window loads them again.
    source.breaks(last, None);
    source.breaks(first, None);
    timeline.seek(8).expect("a position");
    timeline.seek(0).expect("a position");
    timeline.next(1, 1, &mut selection).expect("a sequence");
    store.follow(&timeline, &selection).expect("whole again");
    assert_eq!(state(&store).0, sorted(window.resident));
}

#[test]
fn passing_failure_is_retried() {
    let source = Arc::new(eight());
    let (mut store, mut timeline) = (store(&source), in_order(&source));
    source.breaks(0, Some(passing()));
    assert!(read(&mut store, &mut timeline, 1).is_err());
    assert!(store.is_left_by(&timeline));
    assert_eq!(state(&store), (vec![], vec![]), "chunks ahead may have failed, too");
    source.breaks(0, None);
    timeline.seek(0).expect("the start");
    read(&mut store, &mut timeline, 1).expect("whole again");
    assert_eq!(state(&store), (vec![0], vec![1, 2]));
}

#[test]
fn errors_are_undone_batch_by_batch() {
    let source = Arc::new(Source { errors: vec![1; 8], tolerated: 100, ..eight() });
    let (mut store, mut timeline) = (store(&source), in_order(&source));
    let mut positions = vec![timeline.position()];
    for batch in 1..=5 {
        store.begin_batch(batch);
        read(&mut store, &mut timeline, 2).expect("chunks");
        positions.push(timeline.position());
        assert_eq!(source.counted(), batch);
    }
    // Only the last batches are kept.
    assert_eq!(store.counts.front().map(|(batch, _)| *batch), Some(2));
    store.rewind(5);
    assert_eq!(source.counted(), 5, "nothing came later");
    // Chunk 4 is taken out of the window, but stays in memory.
    store.rewind(3);
    assert_eq!((source.counted(), state(&store)), (3, (vec![], vec![4, 5, 6])));
    timeline.resume(positions[3]).expect("a position");
    for batch in [6, 7] {
        store.begin_batch(batch);
        read(&mut store, &mut timeline, 2).expect("chunks");
        assert_eq!((source.counted(), state(&store).0), (batch - 2, vec![batch as ChunkId - 3]));
    }
    assert_eq!(source.loads().iter().filter(|&&chunk| chunk == 4).count(), 1);
}

#[test]
fn errors_of_a_chunk_that_returns_count_once() {
    let source = Arc::new(Source { errors: vec![1; 8], tolerated: 100, ..eight() });
    let (mut store, mut timeline) = (store(&source), in_order(&source));
    let mut positions = Vec::new();
    for (batch, counted) in [(1, 1), (2, 1), (3, 2)] {
        store.begin_batch(batch);
        read(&mut store, &mut timeline, 1).expect("chunks");
        positions.push(timeline.position());
        assert_eq!(source.counted(), counted);
    }
    // Chunk 0 was in the window after the first batch, and had left it in the last one.
    store.rewind(1);
    assert_eq!((source.counted(), store.waived.len()), (1, 1));
    timeline.resume(positions[0]).expect("a position");
    for (batch, counted) in [(4, 1), (5, 2)] {
        store.begin_batch(batch);
        read(&mut store, &mut timeline, 1).expect("chunks");
        assert_eq!((source.counted(), store.waived.len()), (counted, 0));
    }
}

#[test]
fn forgotten_errors_count_again() {
    let source = Arc::new(Source { errors: vec![1, 0, 1, 0, 0, 0, 0, 0], tolerated: 100, ..eight() });
    let (mut store, mut timeline) = (store(&source), in_order(&source));
    store.begin_batch(1);
    read(&mut store, &mut timeline, 6).expect("chunks");
    assert_eq!((source.counted(), state(&store).0), (2, vec![0, 1, 2]));
    store.forget_errors();
    assert_eq!((source.counted(), store.counts.len()), (0, 0));
    let (resident, ahead) = state(&store);
    assert_eq!((resident, ahead), (vec![1], vec![3, 4]), "chunks with errors are loaded again");
    timeline.seek(0).expect("the start");
    read(&mut store, &mut timeline, 6).expect("chunks");
    assert_eq!((source.counted(), state(&store).0), (2, vec![0, 1, 2]));
}

#[test]
fn too_many_errors_fail_the_chunk() {
    let source = Arc::new(Source { errors: vec![1; 8], tolerated: 1, ..eight() });
    let (mut store, mut timeline) = (store(&source), in_order(&source));
    read(&mut store, &mut timeline, 2).expect("one error");
    assert_eq!(read(&mut store, &mut timeline, 2).expect_err("two").message(), "2 errors");
}

#[test]
fn chunks_are_fetched_for_checkpoints() {
    let source = Arc::new(eight());
    let (mut store, mut timeline) = (store(&source), in_order(&source));
    read(&mut store, &mut timeline, 1).expect("chunks");
    let resident = store.chunks()[0].clone().expect("it is in the window");
    assert!(Arc::ptr_eq(&store.fetch(0).expect("a chunk"), &resident));
    assert!(store.fetch(7).is_ok());
    assert_eq!(state(&store).0, [0], "a fetched chunk is not kept");
    assert_eq!(store.fetch(8).err().expect("no chunk").message(), "There is no chunk 8.");
    assert_eq!([store.sequences_of(7), store.sequences_of(8)], [2, 0]);
    assert_eq!((store.sweep_samples(), store.knows_all_chunks()), (16, true));
    let growing = Arc::new(Source { grows_from: Some(1), ..eight() });
    assert!(!self::store(&growing).knows_all_chunks());
}
