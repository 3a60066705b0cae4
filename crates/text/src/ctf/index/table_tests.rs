//! Compares tables, their parts and their look-ups with plain lists of records.

use super::keys::Keys;
use super::lookup::Sorted;
use super::reference::chunks;
use super::table::{IndexTable, Record, TableBuilder};
use super::*;
use cntk_reader_core::format::sort::sort_like_std;
use cntk_reader_core::testing::cases;
use proptest::prelude::*;

/// Returns a table of sequences with these keys, of 3 bytes each without gaps.
fn table(keys: &[SequenceKey], chunk_size: u64) -> IndexTable {
    let mut builder = TableBuilder::new(chunk_size, false);
    for (&key, number) in keys.iter().zip(0..) {
        builder.add(Record { key, samples: 1, offset: 3 * number, size: 3 }).expect("a sequence");
    }
    builder.finish()
}

fn listed(table: &IndexTable) -> Vec<Record> {
    (0..table.len()).map(|position| Record::from(table.span_at(position))).collect()
}

/// Records without overlaps, with keys of several kinds.
fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let key = prop_oneof![
        6 => Just(None),
        3 => (0u64..12).prop_map(Some),
        1 => (1u64 << 31..(1 << 31) + 4).prop_map(Some),
        1 => any::<u64>().prop_map(Some),
        1 => Just(Some(u64::MAX)),
    ];
    let gap = prop_oneof![9 => Just(0u64), 1 => 1u64..5];
    let samples = prop_oneof![9 => Just(1u32), 1 => 0u32..4];
    proptest::collection::vec((key, gap, samples, 1u64..9), 0..40).prop_map(|all| {
        let (mut next, mut end) = (0, 7);
        let record = |(key, gap, samples, size): (Option<u64>, u64, u32, u64)| {
            // Most keys count up from the previous one.
            let key = key.unwrap_or(next);
            let offset = end + gap;
            (next, end) = (key.wrapping_add(1), offset + size);
            Record { key, samples, offset, size }
        };
        all.into_iter().map(record).collect()
    })
}

fn chunk_size() -> impl Strategy<Value = u64> {
    prop_oneof![1u64..60, Just(u64::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(3000)) })]

    #[test]
    fn look_up_matches_a_list(all in any_records(), limit in chunk_size(), finds_first: bool, other: u64) {
        let mut builder = TableBuilder::new(limit, false);
        all.iter().for_each(|record| builder.add(*record).expect("a sequence"));
        let mut table = builder.finish();
        table.finds_first = finds_first;
        prop_assert_eq!(listed(&table), all.clone());
        let infos: Vec<_> = table.chunks.iter().map(|info| (info.sequences, info.samples)).collect();
        prop_assert_eq!(infos, chunks(&all, limit));
        let is_ascending = all.windows(2).all(|two| two[0].key < two[1].key);
        prop_assert_eq!(table.ascending, is_ascending);
        let is_counting = all.windows(2).all(|two| two[0].key.wrapping_add(1) == two[1].key);
        prop_assert_eq!(table.keys.are_counting(), is_counting);
        let mut sorted: Vec<_> = all.iter().map(|record| record.key).zip(0u64..).collect();
        if !finds_first {
            sort_like_std(&mut sorted);
        }
        let order = OnceLock::new();
        for key in all.iter().map(|record| record.key).chain((0..14).chain([u64::MAX, other])) {
            let expected = sorted.iter().find(|entry| entry.0 == key).map(|entry| entry.1 as usize);
            let found = table.find(key, &order);
            let position = |id: SequenceId| table.positions(id.chunk as usize).start + id.index as usize;
            prop_assert_eq!(found.map(position), expected, "key {}", key);
            if let Some(id) = found {
                prop_assert!(id.index < table.chunks[id.chunk as usize].sequences);
            }
        }
        // Keys are sorted only if they are in another order.
        let bytes = order.get().map(Sorted::bytes);
        prop_assert_eq!(bytes, (!is_ascending && !is_counting).then_some(4 * all.len()));
    }

    #[test]
    fn parts_have_the_sequences_of_the_whole(
        all in any_records(), limit in chunk_size(), cut in proptest::collection::vec(any::<bool>(), 40),
    ) {
        let mut builder = TableBuilder::new(limit, false);
        let (mut found, mut infos) = (Vec::new(), Vec::new());
        let mut see = |part: &IndexTable| {
            found.extend(listed(part));
            infos.extend(part.chunks.iter().map(|info| (info.sequences, info.samples)));
        };
        for ((record, is_cut), number) in all.iter().zip(cut).zip(1..) {
            builder.add(*record).expect("a sequence");
            if is_cut {
                let part = builder.take_complete().expect("memory");
                see(&part);
                // A part knows the order of all keys so far.
                let is_ascending = all[..number].windows(2).all(|two| two[0].key < two[1].key);
                prop_assert!(part.len() == 0 || part.ascending == is_ascending);
            }
        }
        see(&builder.finish());
        prop_assert_eq!(found, all.clone());
        prop_assert_eq!(infos, chunks(&all, limit));
    }

    /// Lines that are added together make the same table as lines that are added one by one, also
    /// 4 GB after the start of the chunk.
    #[test]
    fn lines_are_added_together(
        before in prop_oneof![2 => Just(Vec::new()), 1 => any_records()],
        limit in chunk_size(),
        gap in prop_oneof![4 => Just(0u64), 1 => Just(1)],
        lines in proptest::collection::vec(1u32..9, 0..40),
        follows_key in prop::bool::weighted(0.8),
        far in proptest::option::of(0u64..40),
        key in prop_oneof![0u64..9, Just(u64::MAX - 50)],
    ) {
        let [mut together, mut apart] = [(), ()].map(|()| TableBuilder::new(limit, true));
        let mut end = 0;
        let mut next = key;
        for &record in &before {
            together.add(record).expect("a sequence");
            apart.add(record).expect("a sequence");
            (next, end) = (record.key.wrapping_add(1), record.offset + record.size);
        }
        if let Some(far) = far {
            let far = Record { key: next, samples: 1, offset: end, size: u64::from(u32::MAX) - 60 + far };
            let added = [&mut together, &mut apart].map(|builder| builder.add(far).is_ok());
            prop_assert_eq!(added[0], added[1]);
            (next, end) = (far.key.wrapping_add(1), far.offset + far.size);
        }
        let key = if follows_key && next < u64::MAX - 50 { next } else { key };
        let base = end + gap;
        let starts: Vec<u32> = [0].into_iter().chain(lines.iter().scan(0, |at, size| {
            *at += size;
            Some(*at)
        })).collect();
        let message = |error: Error| error.to_string();
        let first = together.add_lines(key, base, &starts).map_err(message);
        let second = starts.windows(2).zip(key..).try_for_each(|(two, key)| {
            let (offset, size) = (base + u64::from(two[0]), u64::from(two[1] - two[0]));
            apart.add(Record { key, samples: 1, offset, size })
        });
        prop_assert_eq!(&first, &second.map_err(message));
        if first.is_ok() {
            // The order of the next key shows which key was the last one.
            let last = starts.last().map_or(base, |&last| base + u64::from(last));
            let record = Record { key: key + lines.len() as u64, samples: 1, offset: last, size: 1 };
            let added = [&mut together, &mut apart].map(|builder| builder.add(record).is_ok());
            prop_assert_eq!(added[0], added[1]);
        }
        let [together, apart] = [together, apart].map(TableBuilder::finish);
        prop_assert_eq!(listed(&together), listed(&apart));
        prop_assert_eq!(&together.chunks, &apart.chunks);
        prop_assert_eq!((together.ascending, together.bytes()), (apart.ascending, apart.bytes()));
    }
}

#[test]
fn keys_beyond_the_largest_one_are_found() {
    let table = table(&[u64::MAX - 1, u64::MAX, 0, 1], 6);
    assert!(table.keys.are_counting() && !table.ascending);
    let find = |key| table.find(key, &OnceLock::new()).map(|id| (id.chunk, id.index));
    let expected =
        [(u64::MAX - 1, Some((0, 0))), (u64::MAX, Some((0, 1))), (0, Some((1, 0))), (1, Some((1, 1)))];
    for (key, place) in expected.into_iter().chain([(2, None), (u64::MAX - 2, None)]) {
        assert_eq!(find(key), place, "{key}");
    }
}

#[test]
fn ascending_keys_are_found_in_their_chunks() {
    // Close to each other, and far apart.
    for factor in [2, 1 << 40] {
        let keys: Vec<_> = (1..=9).map(|number| number * factor).collect();
        for (chunk_size, sequences) in [(3, 1), (6, 2), (12, 4), (u64::MAX, 9)] {
            let table = table(&keys, chunk_size);
            assert_eq!(matches!(table.keys, Keys::Any(_)), factor > 2 && sequences > 1);
            let find = |key| table.find(key, &OnceLock::new()).map(|id| (id.chunk, id.index));
            for (number, &key) in (0..).zip(&keys) {
                assert_eq!(find(key), Some((number / sequences, number % sequences)), "{key}");
                assert_eq!((find(key - 1), find(key + 1)), (None, None), "{key}");
            }
            assert_eq!((find(0), find(u64::MAX)), (None, None));
        }
    }
}

#[test]
fn equal_keys_are_found_as_cntk_finds_them() {
    let mut sorted: Vec<_> = (0..40).map(|position| (5, position)).collect();
    sort_like_std(&mut sorted);
    assert_ne!(sorted[0].1, 0);
    let table = table(&[5; 40], u64::MAX);
    assert_eq!(table.find(5, &OnceLock::new()), Some(SequenceId { chunk: 0, index: sorted[0].1 as u32 }));
}

#[test]
fn keys_of_one_of_several_files_are_limited() {
    let check = |keys: &[SequenceKey], limit| {
        let mut text = String::new();
        keys.iter().for_each(|key| text += &format!("{key} |x\n"));
        let file = super::tests::file_of(text.as_bytes());
        let error = table(keys, 6).check_keys(&file, limit).err()?;
        assert_eq!(
            error.detail(),
            format!(
                "Each file has its own ids, which have to be less than {}. If all files share one numbering, set \
                 'sharedIds = true', which allows larger ids.",
                limit.expect("a limit")
            )
        );
        let key = error.location().key.clone().expect("a key");
        assert_eq!(
            error.message(),
            format!("Sequence id {key} is too large for a file that is one of several.")
        );
        Some((key, error.location().offset.expect("an offset")))
    };
    let found = |key: u64, offset| Some((key.to_string(), offset));
    for (keys, limit, expected) in [
        (&[][..], Some(0), None),
        (&[5, 6, 7], None, None),
        (&[5, 6, 7], Some(8), None),
        // In ascending order, the last key decides.
        (&[5, 6, 7], Some(7), found(7, 6)),
        (&[5, 6, 7], Some(2), found(7, 6)),
        (&[1, 100, 200], Some(100), found(200, 6)),
        (&[1, 100, 200], Some(201), None),
        (&[7, 100, 5, 200], Some(100), found(100, 3)),
        (&[7, 100, 5, 200], Some(200), found(200, 9)),
        (&[7, 100, 5, 200], Some(201), None),
        (&[u64::MAX, 0, 1], Some(5), found(u64::MAX, 0)),
    ] {
        assert_eq!(check(keys, limit), expected, "{keys:?} {limit:?}");
    }
}
