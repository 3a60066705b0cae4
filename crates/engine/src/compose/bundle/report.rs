//! The report on a join when a reader is opened: its size and its mismatches.

use super::join::{Join, JoinOptions, Member};
use crate::pack::Packing;
use cntk_reader_core::Result;
use cntk_reader_core::format::Deserializer;
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::sequence::{SequenceId, SequenceKey};

/// Number of sequences that a report names; it only counts the rest.
const NAMED: usize = 10;

/// A count of sequences, and the first few of them.
#[derive(Default, Clone)]
pub struct Few {
    count: u64,
    /// Key, samples in the secondary member, samples in the primary.
    first: Vec<(SequenceKey, u32, u32)>,
}

impl Few {
    pub fn add(&mut self, key: SequenceKey, samples: u32, in_primary: u32) {
        self.count += 1;
        // When frames are joined, many in succession have the same key.
        let is_new = self.first.last().is_none_or(|&(last, ..)| last != key);
        if is_new && self.first.len() < NAMED {
            self.first.push((key, samples, in_primary));
        }
    }

    /// Appends the sequences of a later part of the data.
    fn append(&mut self, other: Few) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.truncate(NAMED);
    }

    /// Lists the first sequences, formatted by `name`, and the number of the others.
    fn list(&self, name: impl Fn(&(SequenceKey, u32, u32)) -> String) -> String {
        let mut list = self.first.iter().map(name).collect::<Vec<_>>().join(", ");
        if self.first.len() == NAMED && self.count > NAMED as u64 {
            list += &format!(" and {} more", self.count - NAMED as u64);
        }
        list
    }
}

/// Mismatches for each secondary member.
pub struct Misfits {
    /// Sequences dropped because the member lacks them.
    pub lacking: Vec<Few>,
    /// Joined sequences whose number of frames in the member differs from the primary's.
    pub unequal: Vec<Few>,
}

impl Misfits {
    pub fn new(secondaries: usize) -> Misfits {
        Misfits { lacking: vec![Few::default(); secondaries], unequal: vec![Few::default(); secondaries] }
    }

    /// Adds the mismatches of the next chunk.
    pub fn add(&mut self, next: Misfits) {
        self.lacking.iter_mut().zip(next.lacking).for_each(|(few, next)| few.append(next));
        self.unequal.iter_mut().zip(next.unequal).for_each(|(few, next)| few.append(next));
    }
}

/// Logs the size of the join, and warns of each kind of mismatch. The warnings are shown at every
/// trace level, because CNTK drops sequences silently and missing data should be noticed.
pub(super) fn report(
    join: &Join,
    members: &[Member],
    misfits: &Misfits,
    options: &JoinOptions<'_>,
) -> Result<()> {
    let Some((primary, secondaries)) = members.split_first() else { return Ok(()) };
    let warn = |line: String| Logger::log_always(Level::Warning, &line);
    let key = |member: &Member, key| member.deserializer.diagnostics().key_text(key, options.corpus);
    let total = sequences(&*primary.deserializer);
    let used: u64 = join.infos.iter().map(|info| u64::from(info.sequences)).sum();
    options.log.write(
        Level::Info,
        &format!(
            "Joined {} deserializers by key: {used} of {total} sequences of '{}'.",
            members.len(),
            primary.name
        ),
    );
    let mut dropped = 0;
    for (secondary, lacking) in secondaries.iter().zip(&misfits.lacking).filter(|(_, few)| few.count > 0) {
        dropped += lacking.count;
        warn(format!(
            "Dropped {} of {total} sequences of '{}', because '{}' lacks them: {}. Add them to the latter, or remove them from the \
             former.",
            lacking.count,
            primary.name,
            secondary.name,
            lacking.list(|&(number, ..)| key(primary, number))
        ));
    }
    let empty = total.saturating_sub(used + dropped);
    if empty > 0 {
        warn(format!(
            "Dropped {empty} of {total} sequences of '{}' in chunks without samples.",
            primary.name
        ));
    }
    for (number, secondary) in secondaries.iter().enumerate() {
        let unused = unused(join, number, &*secondary.deserializer)?;
        if unused.count > 0 {
            warn(format!(
                "Not used: {} of {} sequences of '{}': {}. '{}', the first deserializer, lacks them, or they have no partner \
                 elsewhere.",
                unused.count,
                sequences(&*secondary.deserializer),
                secondary.name,
                unused.list(|&(number, ..)| key(secondary, number)),
                primary.name
            ));
        }
    }
    for (secondary, unequal) in secondaries.iter().zip(&misfits.unequal).filter(|(_, few)| few.count > 0) {
        let consequence = match options.packing {
            Packing::Sequence => "They are delivered as they are.",
            Packing::Frame => "Frames past their end are invalid sequences; surplus ones are not used.",
            Packing::Truncated { .. } => "Reading fails where one of these sequences begins.",
        };
        warn(format!(
            "{} of {used} sequences have different numbers of frames in '{}' and '{}': {}. {consequence}",
            unequal.count,
            secondary.name,
            primary.name,
            unequal
                .list(|&(number, samples, own)| format!("{} ({samples}, not {own})", key(primary, number)))
        ));
    }
    Ok(())
}

/// Number of keys of each deserializer that an error shows.
const SHOWN: usize = 3;

/// Explains an empty join: the number of sequences without a partner in each deserializer, and some
/// of the keys.
pub(super) fn without_partner(members: &[Member], misfits: &Misfits, options: &JoinOptions<'_>) -> String {
    let Some((primary, secondaries)) = members.split_first() else { return String::new() };
    let total = sequences(&*primary.deserializer);
    let lacking = secondaries.iter().zip(&misfits.lacking).filter(|(_, few)| few.count > 0);
    let lines = lacking.map(|(secondary, few)| {
        format!(
            "{} of {total} sequences of '{}' ({}) have no partner in '{}', which has {} ({}).",
            few.count,
            primary.name,
            first_keys(primary, options),
            secondary.name,
            sequences(&*secondary.deserializer),
            first_keys(secondary, options)
        )
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// Lists the first keys of a deserializer.
fn first_keys(member: &Member, options: &JoinOptions<'_>) -> String {
    let table = &*member.deserializer;
    let ids = (0..)
        .zip(table.chunks())
        .flat_map(|(chunk, info)| (0..info.sequences).map(move |index| SequenceId { chunk, index }));
    let ids: Vec<SequenceId> = ids.take(SHOWN + 1).collect();
    let mut keys = Vec::with_capacity(ids.len());
    table.keys(&ids, &mut keys);
    let shown = keys
        .iter()
        .take(SHOWN)
        .map(|&key| format!("'{}'", table.diagnostics().key_text(key, options.corpus)));
    let more = if ids.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more}", shown.collect::<Vec<_>>().join(", "))
}

/// Returns the number of sequences of a deserializer.
fn sequences(deserializer: &dyn Deserializer) -> u64 {
    deserializer.chunks().iter().map(|chunk| u64::from(chunk.sequences)).sum()
}

/// Finds the sequences of secondary member `number` that are not used by any joined sequence.
fn unused(join: &Join, number: usize, secondary: &dyn Deserializer) -> Result<Few> {
    let mut firsts = room::with_capacity(secondary.chunks().len(), room::INDEX)?;
    let mut total = 0;
    for chunk in secondary.chunks() {
        firsts.push(total);
        total += chunk.sequences as usize;
    }
    let mut used = room::zeroed::<u64>(total.div_ceil(64), room::INDEX)?;
    for (info, chunk) in join.infos.iter().zip(&join.chunks) {
        let partner = &chunk.partners[number];
        for index in 0..info.sequences {
            let (chunk, index) = partner.places.get(index);
            let chunk = partner.chunks[chunk] as usize;
            // The index can be out of bounds: a user deserializer need not report the sizes of its
            // chunks, and a frame past the end of its labels has no sequence there.
            if index < secondary.chunks()[chunk].sequences {
                let position = firsts[chunk] + index as usize;
                used[position / 64] |= 1 << (position % 64);
            }
        }
    }
    let partners: u64 = used.iter().map(|word| u64::from(word.count_ones())).sum();
    let mut unused = Few { count: (total as u64).saturating_sub(partners), first: Vec::new() };
    let is_unused = |&position: &usize| used[position / 64] >> (position % 64) & 1 == 0;
    let named = if unused.count > 0 { NAMED } else { 0 };
    let ids: Vec<SequenceId> = (0..total)
        .filter(is_unused)
        .take(named)
        .map(|position| {
            let chunk = firsts.partition_point(|&first| first <= position) - 1;
            SequenceId { chunk: chunk as u32, index: (position - firsts[chunk]) as u32 }
        })
        .collect();
    let mut keys = Vec::with_capacity(ids.len());
    secondary.keys(&ids, &mut keys);
    unused.first.extend(keys.into_iter().map(|key| (key, 0, 0)));
    Ok(unused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Recorder, logged};
    use cntk_reader_core::corpus::Corpus;
    use cntk_reader_core::format::InFrameMode;
    use std::sync::Arc;

    /// Joins deserializers. Returns the error's detail, if any, and the log.
    fn joined(recorders: Vec<Recorder>, packing: Packing) -> (Option<String>, Vec<String>) {
        let member = |recorder: Recorder| Member::new(recorder.name.to_owned(), Arc::new(recorder));
        let members: Vec<_> = recorders.into_iter().map(member).collect();
        let options = JoinOptions { corpus: &Corpus::Numeric, log: Logger::new(2), packing };
        let (join, lines) = logged(|| Join::new(&members, None, &options));
        let line = |(level, line): (Level, String)| match level {
            Level::Info => format!("info: {line}"),
            _ => line,
        };
        (join.err().map(|error| error.detail().to_owned()), lines.into_iter().map(line).collect())
    }

    /// Returns sequences of one sample.
    fn of_keys(keys: &[u64]) -> Vec<(u64, u32)> {
        keys.iter().map(|&key| (key, 1)).collect()
    }

    #[test]
    fn dropped_and_unused_sequences_are_named() {
        let members = vec![
            Recorder::new("a", &[&of_keys(&[1, 2, 3]), &of_keys(&[4]), &of_keys(&[5])]),
            Recorder::new("b", &[&of_keys(&[5, 3, 1])]),
            Recorder::new("c", &[&of_keys(&[1, 2]), &of_keys(&[4, 5, 8, 9])]),
        ];
        let (error, lines) = joined(members, Packing::Sequence);
        assert_eq!(error, None);
        let advice = "Add them to the latter, or remove them from the former.";
        let reason = "'a', the first deserializer, lacks them, or they have no partner elsewhere.";
        assert_eq!(
            lines,
            [
                "info: Joined 3 deserializers by key: 2 of 5 sequences of 'a'.".to_owned(),
                format!("Dropped 2 of 5 sequences of 'a', because 'b' lacks them: a-2, a-4. {advice}"),
                format!("Dropped 1 of 5 sequences of 'a', because 'c' lacks them: a-3. {advice}"),
                format!("Not used: 1 of 3 sequences of 'b': b-3. {reason}"),
                format!("Not used: 4 of 6 sequences of 'c': c-2, c-4, c-8, c-9. {reason}"),
            ]
        );
    }

    #[test]
    fn sequences_of_chunks_without_samples_are_counted() {
        let members = vec![
            Recorder::new("a", &[&[(1, 0), (2, 0)], &[(3, 1), (4, 1)]]),
            Recorder::new("b", &[&[(1, 0), (2, 0), (3, 1)]]),
        ];
        let (_, lines) = joined(members, Packing::Sequence);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(lines[0], "info: Joined 2 deserializers by key: 1 of 4 sequences of 'a'.");
        assert!(lines[1].starts_with("Dropped 1 of 4 sequences of 'a', because 'b' lacks them: a-4."));
        assert_eq!(lines[2], "Dropped 2 of 4 sequences of 'a' in chunks without samples.");
        assert!(lines[3].starts_with("Not used: 2 of 3 sequences of 'b': b-1, b-2."));
    }

    #[test]
    fn different_numbers_of_frames_are_named() {
        for (packing, consequence) in [
            (Packing::Sequence, "They are delivered as they are."),
            (Packing::Frame, "Frames past their end are invalid sequences; surplus ones are not used."),
            (
                Packing::Truncated { length: 2, right_splice: 0 },
                "Reading fails where one of these sequences begins.",
            ),
        ] {
            for (modes, is_compared) in [
                ([InFrameMode::Sliced, InFrameMode::Sliced], true),
                ([InFrameMode::Whole, InFrameMode::Sliced], false),
                ([InFrameMode::Sliced, InFrameMode::Whole], false),
            ] {
                let mut members = vec![
                    Recorder::new("a", &[&[(1, 2), (2, 3)], &[(3, 1)]]),
                    Recorder::new("b", &[&[(1, 3), (3, 2), (2, 3)]]),
                ];
                for (member, mode) in members.iter_mut().zip(modes) {
                    member.sequence_facts.in_frame_mode = mode;
                }
                let (error, lines) = joined(members, packing);
                assert_eq!(error, None);
                let expected = format!(
                    "2 of 3 sequences have different numbers of frames in 'b' and 'a': a-1 (3, not 2), a-3 (2, not 1). {consequence}"
                );
                let expected = if is_compared { vec![expected] } else { vec![] };
                assert_eq!(lines[1..], expected, "{modes:?}");
            }
        }
    }

    #[test]
    fn ten_sequences_are_named() {
        let few = |keys: std::ops::Range<u64>, times: usize| {
            let mut few = Few::default();
            keys.for_each(|key| (0..times).for_each(|_| few.add(key, 2, 3)));
            few
        };
        let list = |few: &Few| few.list(|(key, samples, own)| format!("{key}/{samples}/{own}"));
        assert_eq!(list(&few(0..0, 1)), "");
        assert_eq!(list(&few(5..7, 1)), "5/2/3, 6/2/3");
        // Frames of one utterance have one key.
        assert_eq!((few(5..7, 30).count, list(&few(5..7, 30))), (60, "5/2/3, 6/2/3".to_owned()));
        let ten = list(&few(0..10, 1));
        assert!(ten.ends_with(", 9/2/3"));
        assert_eq!(list(&few(0..12, 1)), format!("{ten} and 2 more"));
        let mut both = few(0..6, 1);
        both.append(few(6..9, 2));
        assert_eq!((both.count, both.first.len()), (12, 9));
        both.append(few(9..12, 1));
        assert_eq!((both.count, list(&both)), (15, format!("{ten} and 5 more")));
    }

    /// More sequences than bits in a word, in chunks that do not end with a word.
    #[test]
    fn unused_sequences_are_found_in_all_chunks() {
        let all: Vec<u64> = (0..200).collect();
        let chunks = [&all[..70], &all[70..170], &all[170..]].map(of_keys);
        let choices: [fn(u64) -> bool; 4] =
            [|key| key % 7 == 3, |key| key > 150, |key| key < 3, |key| key == 199];
        for is_unused in choices {
            let unused: Vec<String> =
                all.iter().filter(|&&key| is_unused(key)).map(|key| format!("b-{key}")).collect();
            let used: Vec<u64> = all.iter().copied().filter(|&key| !is_unused(key)).rev().collect();
            let of_used: Vec<_> = used.chunks(9).map(of_keys).collect();
            let members = vec![
                Recorder::new("a", &of_used.iter().map(Vec::as_slice).collect::<Vec<_>>()),
                Recorder::new("b", &chunks.each_ref().map(|chunk| &chunk[..])),
            ];
            let (_, lines) = joined(members, Packing::Sequence);
            let more = match unused.len() {
                count if count > NAMED => format!(" and {} more", count - NAMED),
                _ => String::new(),
            };
            let named = unused[..unused.len().min(NAMED)].join(", ");
            let start = format!("Not used: {} of 200 sequences of 'b': {named}{more}. ", unused.len());
            assert!(lines[1].starts_with(&start), "{lines:?}");
        }
        let members = vec![Recorder::new("a", &[&of_keys(&all)]), Recorder::new("b", &[&of_keys(&all)])];
        assert_eq!(joined(members, Packing::Sequence).1.len(), 1);
    }

    #[test]
    fn keys_without_partners_are_shown() {
        for (keys, shown) in
            [(&[1, 2, 3, 4][..], "'a-1', 'a-2', 'a-3', ..."), (&[1, 2, 3], "'a-1', 'a-2', 'a-3'")]
        {
            let members = vec![
                Recorder::new("a", &[&of_keys(&keys[..1]), &of_keys(&keys[1..])]),
                Recorder::new("b", &[&of_keys(&[7])]),
                Recorder::new("c", &[&of_keys(keys)]),
            ];
            let (detail, _) = joined(members, Packing::Sequence);
            let count = keys.len();
            let expected = format!(
                "{count} of {count} sequences of 'a' ({shown}) have no partner in 'b', which has 1 ('b-7'). Sequences that belong \
                 together need equal keys: numbers, or text with "
            );
            let detail = detail.expect("an error");
            assert!(detail.starts_with(&expected), "{detail}");
        }
    }
}
