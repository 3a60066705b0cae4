//! From options to deserializers.

use super::inspect;
use crate::compose::bundle::{
    Bundle, JoinOptions, Member, check_frames, check_names, frame_mode, frame_modes,
};
use crate::compose::frames::Frames;
use crate::pack::Packing;
use crate::randomize::Order;
use crate::reader::settings::ReaderSettings;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::check;
use cntk_reader_core::format::fetch::check_late_shapes;
use cntk_reader_core::format::options::{Context, Format, Users};
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::format::user::transform::UserTransform;
use cntk_reader_core::format::user::{Factory, Registered, lacks_list_of};
use cntk_reader_core::format::{AnyDeserializer, Deserializer, InFrameMode};
use cntk_reader_core::message::names::Distinct;
use cntk_reader_core::runtime::cancel::Canceller;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::written::Written;
use cntk_reader_core::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Deserializers that are not the library's own.
#[derive(Default)]
pub struct Others<'a> {
    /// Those of users, by name.
    pub registered: &'a [Registered],
    /// Makes those that the configuration names and this library does not have.
    pub factory: Option<&'a dyn Factory>,
    /// Transforms of users, by name.
    pub transforms: &'a [(String, Arc<dyn UserTransform>)],
    /// Ends opening, and the calls of the reader that is opened.
    pub canceller: Option<&'a Canceller>,
    /// Labels may be the first deserializer, which only those who look at data can do something with.
    pub labels_may_be_first: bool,
}

impl Others<'_> {
    /// Runs `work`, which the canceller ends if there is one.
    pub fn run<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        match self.canceller {
            Some(canceller) => canceller.run(work),
            None => work(),
        }
    }
}

/// The corpus that the keys of all deserializers live in.
pub fn corpus(options: &ReaderSettings) -> Arc<Corpus> {
    Arc::new(match (options.numeric_keys, options.hash_keys) {
        (true, _) => Corpus::Numeric,
        (false, true) => Corpus::Hashed,
        (false, false) => Corpus::symbolic(),
    })
}

/// Opens the one source of sequences that the options describe; also gives the deserializers that it consists of.
pub fn deserializer(
    options: &ReaderSettings,
    others: &Others<'_>,
    corpus: &Arc<Corpus>,
    pool: &Pool,
) -> Result<(AnyDeserializer, Vec<inspect::Member>)> {
    // In the data's own order the table of chunks is needed from front to back: it may be made while data are read.
    let incremental = options.order == Order::InOrder && options.deserializers.len() == 1;
    let opened = open_each(options, others, corpus, pool, incremental).collect::<Result<Vec<_>>>()?;
    let describe = |(one, deserializer): (&dyn Format, &AnyDeserializer)| {
        inspect::Member::new(one, deserializer.clone())
    };
    opened.iter().for_each(|one| check::log_remarks(&*one.source()));
    let described = options.formats().zip(&opened).map(describe).collect();
    Ok((compose(options, opened, corpus, pool)?, described))
}

/// Opens the deserializers one after the other, because a symbolic corpus numbers keys in the order of their appearance. If
/// `incremental`, a table of chunks may be made while data are read.
pub fn open_each<'a>(
    options: &'a ReaderSettings,
    others: &'a Others<'_>,
    corpus: &'a Arc<Corpus>,
    pool: &'a Pool,
    incremental: bool,
) -> impl Iterator<Item = Result<AnyDeserializer>> + use<'a> {
    let names: Distinct<'_> = others.registered.iter().map(Registered::name).collect();
    // The result of scanning ahead for the next deserializer.
    let mut ahead = None;
    options.formats().enumerate().map(move |(number, one)| {
        let Others { registered, factory, transforms, labels_may_be_first, .. } = *others;
        let users = Users { registered, names: Some(&names), factory, transforms };
        let context = Context {
            is_primary: number == 0,
            labels_may_be_first,
            is_incremental: incremental,
            next: options.formats().nth(number + 1),
            ahead: ahead.take(),
            users,
            ..Context::alone(corpus, pool, false)
        };
        let opened = one.open(context).map(|opened| {
            ahead = opened.ahead;
            opened.deserializer
        });
        let deserializer = opened.map_err(|error| described(error, one, options.descriptions.get(number)))?;
        let mut own = options.adapters.iter().filter(|adapter| adapter.deserializer() == number);
        own.try_fold(deserializer, |deserializer, adapter| adapter.apply(deserializer, &users, corpus))
    })
}

/// The error of a deserializer that cannot be opened: with what the file is, if that is something else than was expected, and
/// where the configuration describes the deserializer.
fn described(error: Error, options: &dyn Format, description: Option<&Written>) -> Error {
    let file = error.location().file.as_deref().map(DataFile::open);
    let signature = options.facts().signature;
    let explained = match (error.kind(), file) {
        (ErrorKind::Data, Some(Ok(file))) => {
            FileFormat::explain(&file, |format| !format.is_certain() || signature.accepts(format))
        }
        _ => String::new(),
    };
    let error = error.with_detail(explained);
    match (error.kind(), description.and_then(Written::describe)) {
        (ErrorKind::Data | ErrorKind::Io, Some(place)) => {
            error.with_detail(format!("The deserializer is described in {place}."))
        }
        _ => error,
    }
}

/// The one source of sequences that opened deserializers make together.
pub fn compose(
    options: &ReaderSettings,
    mut opened: Vec<AnyDeserializer>,
    corpus: &Arc<Corpus>,
    pool: &Pool,
) -> Result<AnyDeserializer> {
    corpus.shrink();
    let streams: Vec<_> = opened.iter().flat_map(|one| one.source().streams().to_vec()).collect();
    check_names(&streams)?;
    check_late_shapes(&streams, matches!(options.packing, Packing::Truncated { .. }))?;
    if opened.len() > 1 {
        return Ok(AnyDeserializer::Known(join(options, opened, corpus, pool)?));
    }
    let (Some(mut deserializer), Some(first)) = (opened.pop(), options.deserializers.first()) else {
        let detail = "Add ‹a_deserializer›.";
        return Err(Error::argument("A reader needs a deserializer.").with_detail(detail));
    };
    if let AnyDeserializer::Known(table) = &mut deserializer {
        if options.packing == Packing::Frame && table.sequence_facts().in_frame_mode != InFrameMode::Whole {
            *table = Arc::new(Frames::new(Arc::clone(table), corpus)?);
        }
        // CNTK 2.7 says this when it does not randomize, and divides by zero when it does.
        let is_empty = match table.incremental() {
            Some(table) => table.wait_for(0)?.is_none(),
            None => table.chunks().iter().all(|chunk| chunk.samples == 0),
        };
        if is_empty {
            let message =
                "Expected input to contain samples, but the number of successfully read samples was 0.";
            let detail = "Its sequences have no samples, or there are none: check the file, and the warnings about it.";
            return Err(Error::data(message).with_detail(detail).in_file(first.name()));
        }
    }
    Ok(deserializer)
}

/// Joins several deserializers by key.
fn join(
    options: &ReaderSettings,
    opened: Vec<AnyDeserializer>,
    corpus: &Arc<Corpus>,
    pool: &Pool,
) -> Result<Arc<dyn Deserializer>> {
    let members =
        opened.into_iter().zip(&options.deserializers).map(|(deserializer, one)| match deserializer {
            AnyDeserializer::Known(deserializer) => Ok(Member::new(one.name().to_owned(), deserializer)),
            AnyDeserializer::Listing(_) => {
                let message = format!("The deserializer '{}' cannot be joined with others.", one.name());
                Err(Error::argument(message).with_detail(lacks_list_of(one.name())))
            }
        });
    let mut members = members.collect::<Result<Vec<_>>>()?;
    let log = Logger { trace_level: options.trace_level, front_end: options.front_end };
    let join_options = JoinOptions { corpus, log, packing: options.packing };
    let in_place = members.iter().any(|member| member.deserializer.sequence_facts().is_asked_in_place);
    if in_place {
        // The search by key may have to sort, which is work for the pool; all else stays on this thread.
        pool.install(|| members.iter().for_each(|member| _ = member.deserializer.find(0)));
    }
    let mut of_utterances = false;
    if options.packing == Packing::Frame {
        match in_place {
            true => choose_modes(options, &mut members, corpus)?,
            false => pool.install(|| choose_modes(options, &mut members, corpus))?,
        }
        // Frames are joined utterance by utterance, and taken apart afterwards. That is not
        // possible where the primary lists frames itself, or where users' code finds the partner of
        // each frame.
        let is_sliced = |member: &Member| member.mode != InFrameMode::Whole;
        let lists_frames =
            |(one, member): (&dyn Format, &Member)| one.facts().is_foreign && !is_sliced(member);
        of_utterances =
            members.first().is_some_and(is_sliced) && !options.formats().zip(&members).any(lists_frames);
        if !of_utterances {
            for member in members.iter_mut().filter(|member| is_sliced(member)) {
                let frames = Frames::taken_by(Arc::clone(&member.deserializer), member.mode, corpus)?;
                *member = Member::new(std::mem::take(&mut member.name), Arc::new(frames));
            }
        }
    }
    let bundle = match in_place {
        true => Bundle::new(members, &join_options)?,
        false => pool.install(|| Bundle::new(members, &join_options))?,
    };
    match options.packing {
        Packing::Frame if of_utterances => Ok(Arc::new(Frames::of_bundle(bundle, corpus)?)),
        _ => Ok(Arc::new(bundle)),
    }
}

/// Chooses what becomes of the members' sequences in frame mode, and refuses lengths that do not
/// fit. In CNTK's place what CNTK reads is read as it does, and what it fails to read fails when it
/// is read.
fn choose_modes(options: &ReaderSettings, members: &mut [Member], corpus: &Corpus) -> Result<()> {
    let tables: Vec<_> = members.iter().map(|member| &*member.deserializer).collect();
    let modes = frame_modes(&tables);
    tables.iter().try_for_each(|table| {
        if table.sequence_facts().is_asked_in_place { Ok(()) } else { table.prepare_to_find() }
    })?;
    members.iter_mut().zip(modes).for_each(|(member, mode)| member.mode = mode);
    let as_cntk = options.in_place_of.is_some();
    match check_frames(members, corpus, as_cntk) {
        Err(error) if as_cntk && error.kind() == ErrorKind::Data => {
            members.iter_mut().for_each(|member| member.mode = frame_mode(&*member.deserializer));
            Ok(())
        }
        checked => checked,
    }
}
