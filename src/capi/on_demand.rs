//! Deserializers of others whose sequences are fetched one by one: tables of callbacks, and who makes them.

use super::call::inputs;
use super::custom::cntk_reader_failure;
use super::custom_data::{cntk_reader_user_stream, list, wrong};
use super::deserializer::{cntk_reader_chunk_info, cntk_reader_sequence_info};
use super::finalizer::cntk_reader_finalizer;
use super::keys::cntk_reader_keys;
use super::on_demand_data::{Data, cntk_reader_fetched, cntk_reader_fetched_stream};
use super::section::cntk_reader_section;
use super::sized::{self, Sized};
use crate::deserialize::ChunkInfo;
use crate::deserialize::custom::{Factory, OnDemand, OnDemandChunk, Request};
use crate::deserialize::fetch::FetchedData;
use crate::sequence::{ChunkId, SequenceId, SequenceInfo};
use crate::stream::{ElementType, Storage, StreamInfo};
use crate::{Error, Result};
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// Lists the sequences of a chunk, whose index is their place in the list. The list stays valid until the next callback.
/// Returns 0, or another number if it fails.
pub type cntk_reader_list_chunk = Option<
    unsafe extern "C" fn(
        userdata: *mut c_void,
        chunk: u32,
        sequences: *mut *const cntk_reader_sequence_info,
        count: *mut usize,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Looks for the sequence that belongs to one of the reader's first deserializer: chunk, index and length are written to
/// `partner`, and 1 to `found`, if there is one. Returns 0, or another number if it fails.
pub type cntk_reader_find_partner = Option<
    unsafe extern "C" fn(
        userdata: *mut c_void,
        of: *const cntk_reader_sequence_info,
        partner: *mut cntk_reader_sequence_info,
        found: *mut u32,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Loads a chunk and writes a handle of it. Returns 0, or another number if it fails.
pub type cntk_reader_load_chunk = Option<
    unsafe extern "C" fn(
        userdata: *mut c_void,
        chunk: u32,
        handle: *mut *mut c_void,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Lists the sequences of a chunk that was loaded; otherwise as cntk_reader_list_chunk.
pub type cntk_reader_list_loaded = Option<
    unsafe extern "C" fn(
        userdata: *mut c_void,
        chunk: *mut c_void,
        sequences: *mut *const cntk_reader_sequence_info,
        count: *mut usize,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Fetches a sequence of a loaded chunk. Returns 0, or another number if it fails.
pub type cntk_reader_fetch_sequence = Option<
    unsafe extern "C" fn(
        userdata: *mut c_void,
        chunk: *mut c_void,
        index: u32,
        fetched: *mut cntk_reader_fetched,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Makes the data of a sequence ready and describes them, one struct for each stream. `position` is that of the sequence
/// in its minibatch; invalid ones have none, and are not prepared. All pointers that are written stay valid until the
/// sequence is released. Returns 0, or another number if it fails.
pub type cntk_reader_prepare_sequence = Option<
    unsafe extern "C" fn(
        userdata: *mut c_void,
        sequence: *mut c_void,
        position: u32,
        streams: *mut cntk_reader_fetched_stream,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Releases a chunk or a sequence: called once for each one, with its handle, by any thread.
pub type cntk_reader_release_handle =
    Option<unsafe extern "C" fn(userdata: *mut c_void, handle: *mut c_void)>;

/// A deserializer whose sequences are fetched one by one, when a minibatch needs them. Initialize with zeros and set
/// `struct_size`.
///
/// `list` and `partner` are called by the thread that opens the reader, before that call returns. Chunks are loaded by
/// one thread at a time, which is one of the library's. Sequences are fetched and prepared by the thread that reads, or
/// by several at once if the configuration says `multiThreadedDeserialization`. A chunk is released after its
/// sequences. Callbacks must not throw.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_on_demand {
    /// sizeof(cntk_reader_on_demand).
    pub struct_size: usize,
    /// The first argument of every callback.
    pub userdata: *mut c_void,
    /// The streams, at least one. A shape of one dimension CNTK_READER_UNKNOWN_DIMENSION is told by the first sequence,
    /// and the same from then on. Copied when the deserializer was made.
    pub streams: *const cntk_reader_user_stream,
    /// Their number.
    pub stream_count: usize,
    /// The chunks, at least one; `struct_size` is not looked at. Sizes are not needed if `list_loaded` is what counts, or
    /// 0 where they are not known. Copied.
    pub chunks: *const cntk_reader_chunk_info,
    /// Their number.
    pub chunk_count: usize,
    /// Lists a chunk before it is loaded. Needed if the deserializer is the reader's first and composable.
    pub list: cntk_reader_list_chunk,
    /// Finds sequences by those of the reader's first deserializer. Needed if it is not that one itself.
    pub partner: cntk_reader_find_partner,
    /// Loads a chunk. Must be set.
    pub load: cntk_reader_load_chunk,
    /// Lists a chunk that was loaded. Needed if the deserializer is not composable.
    pub list_loaded: cntk_reader_list_loaded,
    /// Releases a chunk; may be NULL.
    pub release_chunk: cntk_reader_release_handle,
    /// Fetches a sequence. Must be set.
    pub fetch: cntk_reader_fetch_sequence,
    /// Makes its data ready. Must be set.
    pub prepare: cntk_reader_prepare_sequence,
    /// Releases a sequence; may be NULL.
    pub release_sequence: cntk_reader_release_handle,
    /// Called once, when all chunks and sequences were released; may be NULL.
    pub finalizer: cntk_reader_finalizer,
}

// SAFETY: plain members, all of which may be zero; zero stands for no callback.
unsafe impl Sized for cntk_reader_on_demand {
    const NAME: &'static str = "cntk_reader_on_demand";
}

const NO_TABLE: cntk_reader_on_demand = cntk_reader_on_demand {
    struct_size: size_of::<cntk_reader_on_demand>(),
    userdata: null_mut(),
    streams: null(),
    stream_count: 0,
    chunks: null(),
    chunk_count: 0,
    list: None,
    partner: None,
    load: None,
    list_loaded: None,
    release_chunk: None,
    fetch: None,
    prepare: None,
    release_sequence: None,
    finalizer: None,
};

/// What a factory is to make. All of it lives until the callback returns.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_request {
    /// sizeof(cntk_reader_request), set by the library.
    pub struct_size: usize,
    /// The deserializer's section, with the keys that the reader puts into it: `frameMode`, `precision`, `traceLevel`.
    pub section: *const cntk_reader_section,
    /// Its `type`: UTF-8, `type_length` bytes.
    pub type_name: *const c_char,
    /// Bytes of the type.
    pub type_length: usize,
    /// How keys become numbers in this reader.
    pub keys: *const cntk_reader_keys,
    /// 1 if it is the reader's first deserializer, whose chunks and order count.
    pub is_primary: u32,
    /// 0.
    pub reserved: u32,
}

/// Makes a deserializer. `made` has its size set and is zero otherwise. Returns 0, or another number if it fails.
pub type cntk_reader_make_deserializer = Option<
    unsafe extern "C" fn(
        userdata: *mut c_void,
        request: *const cntk_reader_request,
        made: *mut cntk_reader_on_demand,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// The parts of a table that callbacks need.
pub(super) struct Table {
    pub(super) table: cntk_reader_on_demand,
    streams: Vec<StreamInfo>,
    /// What a sequence needs of them.
    pub(super) kinds: Vec<(Storage, ElementType)>,
    chunks: Vec<ChunkInfo>,
}

// SAFETY: the header demands callbacks that may be called by any thread, and says by how many at once.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(finalizer) = self.table.finalizer {
            // SAFETY: registered for this use, and this is the only and last one.
            unsafe { finalizer(self.table.userdata) };
        }
    }
}

pub(super) fn missing(callback: &str) -> Error {
    Error::argument(format!("The callback {callback} must not be NULL."))
}

impl Table {
    /// # Safety
    /// The table is as the header demands.
    unsafe fn new(table: cntk_reader_on_demand) -> Result<Table> {
        // From here on the finalizer is called whatever happens.
        let mut made = Table { table, streams: Vec::new(), kinds: Vec::new(), chunks: Vec::new() };
        // SAFETY: the caller's promise.
        let (streams, chunks) = unsafe {
            (
                inputs(table.streams, table.stream_count, "streams")?,
                inputs(table.chunks, table.chunk_count, "chunks")?,
            )
        };
        // SAFETY: as above.
        made.streams = streams.iter().map(|stream| unsafe { stream.to_info() }).collect::<Result<_>>()?;
        made.kinds = made.streams.iter().map(|info| (info.storage, info.element)).collect();
        let info = |chunk: &cntk_reader_chunk_info| {
            let sequences = u32::try_from(chunk.sequences);
            let sequences = sequences.map_err(|_| wrong("A chunk has too many sequences."))?;
            Ok(ChunkInfo { samples: chunk.samples, sequences })
        };
        made.chunks = chunks.iter().map(info).collect::<Result<_>>()?;
        Ok(made)
    }
}

/// Lists that callbacks give.
///
/// # Safety
/// The list is readable.
unsafe fn infos<'a>(
    start: *const cntk_reader_sequence_info,
    count: usize,
) -> Result<&'a [cntk_reader_sequence_info]> {
    // SAFETY: the caller's promise.
    let infos = unsafe { list(start, count, "sequences") }?;
    match u32::try_from(count) {
        Ok(_) => Ok(infos),
        Err(_) => Err(wrong(format!("{count} sequences in a chunk are too many."))),
    }
}

struct User(Arc<Table>);

impl OnDemand for User {
    fn streams(&self) -> Result<Vec<StreamInfo>> {
        Ok(self.0.streams.clone())
    }

    fn chunks(&self) -> Result<Vec<ChunkInfo>> {
        Ok(self.0.chunks.clone())
    }

    fn list(&self, chunk: ChunkId, sequences: &mut Vec<SequenceInfo>) -> Result<()> {
        let table = &self.0.table;
        let list = table.list.ok_or_else(|| missing("list"))?;
        let (mut start, mut count, mut failure) = (null(), 0, cntk_reader_failure::default());
        // SAFETY: registered for this use; the outputs live until it returns, and the list until the next callback.
        let infos = unsafe {
            let status = list(table.userdata, chunk, &raw mut start, &raw mut count, &raw mut failure);
            failure.check("list", status)?;
            infos(start, count)?
        };
        sequences.extend((0..).zip(infos).map(|(index, info)| SequenceInfo {
            id: SequenceId { chunk, index },
            samples: info.samples,
            key: info.key,
            sample: info.sample,
        }));
        Ok(())
    }

    fn partner(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        let table = &self.0.table;
        let find = table.partner.ok_or_else(|| missing("partner"))?;
        let of = cntk_reader_sequence_info {
            chunk: of.id.chunk,
            index: of.id.index,
            samples: of.samples,
            sample: of.sample,
            key: of.key,
        };
        let (mut partner, mut found, mut failure) = (of, 0, cntk_reader_failure::default());
        // SAFETY: registered for this use; all pointers are those of variables here.
        let status = unsafe {
            find(table.userdata, &raw const of, &raw mut partner, &raw mut found, &raw mut failure)
        };
        failure.check("partner", status)?;
        let id = SequenceId { chunk: partner.chunk, index: partner.index };
        Ok((found != 0).then_some((id, partner.samples)))
    }

    fn load(&self, chunk: ChunkId) -> Result<Box<dyn OnDemandChunk>> {
        let table = &self.0.table;
        let load = table.load.ok_or_else(|| missing("load"))?;
        let (mut handle, mut failure) = (null_mut(), cntk_reader_failure::default());
        // SAFETY: registered for this use; the outputs live until it returns.
        let status = unsafe { load(table.userdata, chunk, &raw mut handle, &raw mut failure) };
        failure.check("load", status)?;
        Ok(Box::new(Chunk { table: Arc::clone(&self.0), handle }))
    }
}

/// A chunk that the user waits to get back.
struct Chunk {
    table: Arc<Table>,
    handle: *mut c_void,
}

// SAFETY: the handle is only passed back, by threads that may call the callbacks.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(release) = self.table.table.release_chunk {
            // SAFETY: registered for this use; the handle came from the user, and this is its only release.
            unsafe { release(self.table.table.userdata, self.handle) };
        }
    }
}

impl OnDemandChunk for Chunk {
    fn fetch(&self, index: u32, used: Option<Box<dyn FetchedData>>) -> Result<Box<dyn FetchedData>> {
        let table = &self.table.table;
        let fetch = table.fetch.ok_or_else(|| missing("fetch"))?;
        let (mut fetched, mut failure) = (cntk_reader_fetched::default(), cntk_reader_failure::default());
        // SAFETY: registered for this use; the outputs live until it returns.
        let status = unsafe { fetch(table.userdata, self.handle, index, &raw mut fetched, &raw mut failure) };
        failure.check("fetch", status)?;
        let mut data = Data::of(&self.table, used);
        data.take(fetched);
        Ok(data)
    }

    fn list(&self, lengths: &mut Vec<u32>) -> Result<()> {
        let table = &self.table.table;
        let list = table.list_loaded.ok_or_else(|| missing("list_loaded"))?;
        let (mut start, mut count, mut failure) = (null(), 0, cntk_reader_failure::default());
        // SAFETY: registered for this use; the outputs live until it returns, and the list until the next callback.
        let infos = unsafe {
            let status = list(table.userdata, self.handle, &raw mut start, &raw mut count, &raw mut failure);
            failure.check("list_loaded", status)?;
            infos(start, count)?
        };
        lengths.extend(infos.iter().map(|info| info.samples));
        Ok(())
    }
}

/// The user's factory.
pub(super) struct Maker {
    userdata: *mut c_void,
    make: unsafe extern "C" fn(
        *mut c_void,
        *const cntk_reader_request,
        *mut cntk_reader_on_demand,
        *mut cntk_reader_failure,
    ) -> i32,
}

impl Maker {
    pub(super) fn new(
        make: unsafe extern "C" fn(
            *mut c_void,
            *const cntk_reader_request,
            *mut cntk_reader_on_demand,
            *mut cntk_reader_failure,
        ) -> i32,
        userdata: *mut c_void,
    ) -> Self {
        Maker { userdata, make }
    }
}

impl Factory for Maker {
    fn make(&self, request: &Request<'_>) -> Result<Arc<dyn OnDemand>> {
        let section = cntk_reader_section(request.section.clone());
        let keys = cntk_reader_keys(Arc::clone(request.corpus));
        let asked = cntk_reader_request {
            struct_size: size_of::<cntk_reader_request>(),
            section: &raw const section,
            type_name: request.name.as_ptr().cast(),
            type_length: request.name.len(),
            keys: &raw const keys,
            is_primary: request.is_primary.into(),
            reserved: 0,
        };
        let (mut made, mut failure) = (NO_TABLE, cntk_reader_failure::default());
        // SAFETY: registered for this use; all pointers are those of variables here.
        unsafe {
            let status = (self.make)(self.userdata, &raw const asked, &raw mut made, &raw mut failure);
            failure.check("make", status)?;
            let table = Table::new(sized::read(&raw const made, NO_TABLE)?)?;
            Ok(Arc::new(User(Arc::new(table))))
        }
    }
}
