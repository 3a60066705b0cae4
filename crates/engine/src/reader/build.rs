//! Creates deserializers from options.

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
use std::iter::repeat_n;
use std::sync::Arc;

/// Extensions from outside the library, and how to open a reader.
#[derive(Default)]
pub struct Extensions<'a> {
    /// User deserializers, by name.
    pub registered: &'a [Registered],
    /// Creates deserializers that the configuration names but this library lacks.
    pub factory: Option<&'a dyn Factory>,
    /// User transforms, by name.
    pub transforms: &'a [(String, Arc<dyn UserTransform>)],
    /// Cancels opening, and the calls of the opened reader.
    pub canceller: Option<&'a Canceller>,
    /// Labels may be the first deserializer. Useful only for inspecting data.
    pub labels_may_be_first: bool,
}

impl Extensions<'_> {
    /// Runs `work`, which can be cancelled if there is a canceller.
    pub fn run<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        match self.canceller {
            Some(canceller) => canceller.run(work),
            None => work(),
        }
    }
}

/// Creates the corpus for the keys of all deserializers.
pub fn corpus(options: &ReaderSettings) -> Arc<Corpus> {
    Arc::new(match (options.numeric_keys, options.hash_keys) {
        (true, _) => Corpus::Numeric,
        (false, true) => Corpus::Hashed,
        (false, false) => Corpus::symbolic(),
    })
}

/// Opens the source of sequences described by the options. Also returns the deserializers of which
/// it consists.
pub fn deserializer(
    options: &ReaderSettings,
    others: &Extensions<'_>,
    corpus: &Arc<Corpus>,
    pool: &Pool,
) -> Result<(AnyDeserializer, Vec<inspect::Member>)> {
    // In the data's own order, the chunk table is used front to back, so it may be built during
    // reading.
    let incremental = options.order == Order::InOrder && options.deserializers.len() == 1;
    let opened = open_each(options, others, corpus, pool, incremental).collect::<Result<Vec<_>>>()?;
    let describe = |(one, deserializer): (&dyn Format, &AnyDeserializer)| {
        inspect::Member::new(one, deserializer.clone())
    };
    opened.iter().for_each(|one| check::log_remarks(&*one.source()));
    let described = options.formats().zip(&opened).map(describe).collect();
    Ok((compose(options, opened, corpus, pool)?, described))
}

/// Opens the deserializers one by one, because a symbolic corpus numbers keys in order of
/// appearance. With `incremental`, a chunk table may be built during reading.
pub fn open_each<'a>(
    options: &'a ReaderSettings,
    others: &'a Extensions<'_>,
    corpus: &'a Arc<Corpus>,
    pool: &'a Pool,
    incremental: bool,
) -> impl Iterator<Item = Result<AnyDeserializer>> + use<'a> {
    let names: Distinct<'_> = others.registered.iter().map(Registered::name).collect();
    // The result of scanning ahead for the next deserializer.
    let mut ahead = None;
    options.formats().enumerate().map(move |(number, one)| {
        let Extensions { registered, factory, transforms, labels_may_be_first, .. } = *others;
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

/// Adds to the error of a deserializer that cannot be opened: the actual format of the file, if
/// unexpected, and the location of the deserializer in the configuration.
fn described(error: Error, options: &dyn Format, description: Option<&Written>) -> Error {
    let file = error.location().file.as_deref().map(DataFile::open);
    let signature = options.facts().signature;
    let explained = match (error.kind(), file) {
        (ErrorKind::Data, Some(Ok(file))) => {
            FileFormat::explain(&file, |format| !format.is_certain() || signature.accepts(format))
        }
        _ => None,
    };
    let error = match explained {
        Some((cause, remedy)) => error.explained_by(&cause, remedy),
        None => error,
    };
    match (error.kind(), description.and_then(Written::describe)) {
        (ErrorKind::Data | ErrorKind::Io, Some(place)) => {
            error.with_detail(format!("The deserializer is described in {place}."))
        }
        _ => error,
    }
}

/// Combines opened deserializers into one source of sequences.
pub fn compose(
    options: &ReaderSettings,
    mut opened: Vec<AnyDeserializer>,
    corpus: &Arc<Corpus>,
    pool: &Pool,
) -> Result<AnyDeserializer> {
    corpus.shrink();
    let streams: Vec<_> = opened.iter().flat_map(|one| one.source().streams().to_vec()).collect();
    let owners = opened.iter().zip(&options.deserializers);
    let owners = owners.flat_map(|(one, format)| repeat_n(format.name(), one.source().streams().len()));
    check_names(&owners.zip(&streams).collect::<Vec<_>>())?;
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
        // CNTK 2.7 reports this without randomization, and divides by zero with it.
        let is_empty = match table.incremental() {
            Some(table) => table.wait_for(0)?.is_none(),
            None => table.chunks().iter().all(|chunk| chunk.samples == 0),
        };
        if is_empty {
            let message =
                "Expected input to contain samples, but the number of successfully read samples was 0.";
            let detail = "Its sequences have no samples, or there are none: check the file, and the warnings about it.";
            let error = Error::data(message).as_cntk().with_detail("The data have no samples.");
            return Err(error.with_detail(detail).in_file(first.name()));
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
        // The search by key may sort, which is work for the pool; everything else stays on this
        // thread.
        pool.install(|| members.iter().for_each(|member| _ = member.deserializer.find(0)));
    }
    let mut of_utterances = false;
    if options.packing == Packing::Frame {
        match in_place {
            true => choose_modes(options, &mut members, corpus)?,
            false => pool.install(|| choose_modes(options, &mut members, corpus))?,
        }
        // Utterances are joined first and then split into frames. That is not possible if the
        // primary lists frames itself, or if users' code finds the partner of each frame.
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

/// Chooses how frame mode treats the members' sequences, and rejects incompatible lengths. In
/// CNTK's place, data that CNTK can read are treated as in CNTK, and data that it cannot read fail
/// during reading.
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
