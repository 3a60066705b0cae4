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
