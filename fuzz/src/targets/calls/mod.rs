//! Sequences of calls of the C interface, in any order and with arguments of any size. Handles are
//! valid or NULL, as the header requires; memory has exactly the stated size, which
//! AddressSanitizer checks.

mod cancelling;
mod conversion;
mod made;
mod transform;

use crate::case::Case;
use crate::choices::Choices;
use cntk_reader_capi::buffer::{cntk_reader_buffer, cntk_reader_buffer_free, cntk_reader_buffer_get_bytes};
use cntk_reader_capi::checkpoint::{cntk_reader_checkpoint_restore, cntk_reader_checkpoint_save};
use cntk_reader_capi::configuration::{
    cntk_reader_configuration, cntk_reader_configuration_get, cntk_reader_configuration_set,
};
use cntk_reader_capi::epoch::{cntk_reader_epoch, cntk_reader_epoch_start};
use cntk_reader_capi::forms::*;
use cntk_reader_capi::host::chunk::{
    cntk_reader_chunk, cntk_reader_chunk_decode_sequence, cntk_reader_chunk_free,
    cntk_reader_chunk_get_sequence, cntk_reader_decoded, cntk_reader_decoded_free,
};
use cntk_reader_capi::host::deserializer::*;
use cntk_reader_capi::host::section::*;
use cntk_reader_capi::minibatch::*;
use cntk_reader_capi::minibatch_handle::cntk_reader_minibatch;
use cntk_reader_capi::minibatch_stream::*;
use cntk_reader_capi::reader::*;
use cntk_reader_capi::source::{cntk_reader_open, cntk_reader_source};
use cntk_reader_capi::state::{cntk_reader_state_entry, cntk_reader_state_get, cntk_reader_state_set};
use cntk_reader_capi::stream::cntk_reader_stream_info;
use cntk_reader_capi::user_sequence::cntk_reader_sequence_info;
use made::{Room, check, given_up, number, taken};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use transform::StoredTable;

/// Maximum number of calls of an input.
const CALLS: usize = 200;

/// Options of readers besides the data.
const SOURCES: [&str; 5] = [
    "randomize = true",
    "randomize = false",
    "frameMode = true",
    "truncated = true\ntruncationLength = 3",
    "randomize = true\nlocalTimeline = true\nprecision = \"double\"",
];

/// The data.
const DATA: &str = "0 |x 1 2 |s 0:1\n0 |x 3 4 |s 1:1\n1 |x 5 6 |s 2:7\n2 |x 7 8 |s 1:1 2:2\n2 |x 9 10 |s 0:5\n3 |x 1 1 |s 1:1\n";

/// The handles that calls have returned.
#[derive(Default)]
struct Handles {
    /// Path of the data.
    file: String,
    section: Option<Box<cntk_reader_section>>,
    reader: Option<Box<cntk_reader>>,
    minibatches: Vec<*const cntk_reader_minibatch>,
    checkpoint: Vec<u8>,
    deserializer: Option<Box<cntk_reader_deserializer>>,
    chunk: Option<Box<cntk_reader_chunk>>,
}

impl Handles {
    fn reader(&self) -> *mut cntk_reader {
        self.reader.as_ref().map_or(null_mut(), |reader| (&raw const **reader).cast_mut())
    }

    fn minibatch(&self, choices: &mut Choices<'_>) -> Option<&cntk_reader_minibatch> {
        let at = choices.below(self.minibatches.len());
        // SAFETY: the list owns a reference to each minibatch until it is removed.
        self.minibatches.get(at).map(|&minibatch| unsafe { &*minibatch })
    }

    fn open(&mut self, choices: &mut Choices<'_>) {
        let (mut table, transforms) = StoredTable::chosen(choices);
        let file = &self.file;
        let text = format!(
            "traceLevel = 0\n{}\ndeserializers = ([ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader\n\
             file = \"{file}\" ; chunkSizeInBytes = 20\n\
             input = [ x = [ dim = 2 ; format = dense {transforms} ] ; s = [ dim = 3 ; format = sparse ] ] ])",
            choices.pick(&SOURCES)
        );
        let tables = table.as_mut().map(|table| table.pointer());
        let mut source = cntk_reader_source {
            text: text.as_ptr().cast(),
            text_length: text.len(),
            transforms: tables.as_ref().map_or(null(), |table| &raw const *table),
            transform_count: usize::from(tables.is_some()),
            canceller: cancelling::pointer(),
            ..cntk_reader_source::default()
        };
        if choices.once_in(8) {
            source.text_length = choices.below(text.len());
        }
        let mut room = Room::chosen(choices).with(&source);
        let mut place = MaybeUninit::new(null_mut());
        // SAFETY: the struct has its stated size, or one that the library refuses; the text and the
        // table outlive the call.
        check(choices, |error| unsafe { cntk_reader_open(room.pointer(), Some(&mut place), error) });
        // SAFETY: the handle is freed only here.
        unsafe { cntk_reader_free(given_up(self.reader.take())) };
        self.reader = taken(place);
        if let Some(table) = table {
            table.opened(self.reader.is_some());
        }
    }

    fn start(&self, choices: &mut Choices<'_>) {
        let mut epoch = cntk_reader_epoch {
            workers: 1 + choices.below(3) as u64,
            rank: choices.below(2) as u64,
            minibatch_size: 1 + choices.below(8) as u64,
            sweeps: choices.below(3) as u64,
            ..cntk_reader_epoch::default()
        };
        if choices.once_in(2) {
            let members = [
                &mut epoch.workers,
                &mut epoch.rank,
                &mut epoch.minibatch_size,
                &mut epoch.truncation_length,
                &mut epoch.right_splice,
                &mut epoch.cross_sweeps,
                &mut epoch.samples,
                &mut epoch.sweeps,
                &mut epoch.index,
            ];
            let which = choices.below(members.len());
            for (place, member) in members.into_iter().enumerate() {
                if place == which {
                    *member = number(choices);
                }
            }
        }
        let mut room = Room::chosen(choices).with(&epoch);
        // SAFETY: the reader is NULL or a handle, the struct has its stated size, or one that the
        // library refuses.
        check(choices, |error| unsafe { cntk_reader_epoch_start(self.reader(), room.pointer(), error) });
    }

    fn read(&mut self, choices: &mut Choices<'_>) {
        let mut place = MaybeUninit::new(null());
        let reader = self.reader();
        if choices.once_in(2) {
            // SAFETY: the reader is NULL or a handle.
            check(choices, |error| unsafe { cntk_reader_minibatch_read(reader, Some(&mut place), error) });
        } else {
            let milliseconds = *choices.pick(&[0, 1, u64::MAX]);
            let mut outcome = MaybeUninit::uninit();
            check(choices, |error| {
                // SAFETY: as above.
                unsafe {
                    cntk_reader_minibatch_next(
                        reader,
                        milliseconds,
                        Some(&mut place),
                        Some(&mut outcome),
                        error,
                    )
                }
            });
        }
        // SAFETY: the place was initialized with NULL, or the call has written a minibatch.
        let minibatch: *const cntk_reader_minibatch = unsafe { place.assume_init() };
        if !minibatch.is_null() {
            self.minibatches.push(minibatch);
        }
        while self.minibatches.len() > 8 {
            // SAFETY: releases a reference that the list owned.
            unsafe { cntk_reader_minibatch_release(self.minibatches.remove(0)) };
        }
    }

    fn configure(&self, choices: &mut Choices<'_>) {
        let configuration = cntk_reader_configuration {
            workers: number(choices),
            rank: number(choices),
            minibatch_size: number(choices),
            truncation_length: number(choices),
            right_splice: number(choices),
            ..cntk_reader_configuration::default()
        };
        let mut room = Room::chosen(choices).with(&configuration);
        let mut given = Room::<cntk_reader_configuration>::chosen(choices);
        // SAFETY: the reader is NULL or a handle, the structs have their stated sizes, or sizes
        // that the library refuses.
        unsafe {
            check(choices, |error| cntk_reader_configuration_set(self.reader(), room.pointer(), error));
            let reader = self.reader.as_deref();
            check(choices, |error| cntk_reader_configuration_get(reader, given.pointer(), error));
        }
    }

    fn describe(&self, choices: &mut Choices<'_>) {
        let (reader, index) = (self.reader.as_deref(), number(choices) as usize);
        let mut whole = Room::<cntk_reader_info>::chosen(choices);
        let mut stream = Room::<cntk_reader_stream_info>::chosen(choices);
        let mut member = Room::<cntk_reader_member_info>::chosen(choices);
        let mut progress = Room::<cntk_reader_progress>::chosen(choices);
        let mut memory = Room::<cntk_reader_memory>::chosen(choices);
        let mut bytes = MaybeUninit::uninit();
        // SAFETY: the structs have their stated sizes, or sizes that the library refuses.
        unsafe {
            check(choices, |error| cntk_reader_describe(reader, whole.pointer(), error));
            check(choices, |error| cntk_reader_stream_describe(reader, index, stream.pointer(), error));
            check(choices, |error| cntk_reader_member_describe(reader, index, member.pointer(), error));
            check(choices, |error| cntk_reader_progress_get(reader, progress.pointer(), error));
            check(choices, |error| cntk_reader_memory_get(reader, memory.pointer(), error));
        }
        let workers = number(choices);
        check(choices, |error| cntk_reader_chunk_size_suggest(reader, workers, Some(&mut bytes), error));
    }

    fn look(&self, choices: &mut Choices<'_>) {
        let minibatch = self.minibatch(choices);
        let mut info = Room::<cntk_reader_minibatch_info>::chosen(choices);
        let mut stream = Room::<cntk_reader_minibatch_stream>::whole();
        let index = choices.below(3);
        // SAFETY: the structs have their stated sizes, or sizes that the library refuses.
        unsafe {
            check(choices, |error| cntk_reader_minibatch_describe(minibatch, info.pointer(), error));
            if check(choices, |error| {
                cntk_reader_minibatch_stream_describe(minibatch, index, stream.pointer(), error)
            }) {
                let stream = stream.get();
                let records = std::slice::from_raw_parts(stream.records, stream.record_count);
                assert!(records.iter().all(|record| record.lane < stream.lanes as u64));
                let block = std::slice::from_raw_parts(stream.block.cast::<u8>(), stream.block_size);
                std::hint::black_box(block.iter().fold(0_u8, |sum, byte| sum ^ byte));
            }
            let mut text = vec![0_u8; choices.below(6)];
            let (sequence, mut length) = (number(choices) as usize, MaybeUninit::uninit());
            let (pointer, capacity) = (text.as_mut_ptr().cast(), text.len());
            check(choices, |error| {
                cntk_reader_minibatch_get_key_text(
                    minibatch,
                    sequence,
                    pointer,
                    capacity,
                    Some(&mut length),
                    error,
                )
            });
        }
    }

    fn form(&self, choices: &mut Choices<'_>) {
        let (minibatch, stream, length) =
            (self.minibatch(choices), choices.below(3), number(choices) as usize);
        // Large enough for doubles; the library may write floats.
        let mut values = vec![0_f64; choices.below(100)];
        let (mut mask, mut numbers) = (vec![0_u8; choices.below(50)], vec![0_i32; choices.below(50)]);
        let (value_room, number_room) = (values.len(), numbers.len());
        // The code of a type, or an invalid one. `values` has room for eight bytes per value.
        let element = choices.below(22) as u32;
        // SAFETY: each pointer has the number of elements passed beside it.
        check(choices, |error| unsafe {
            let (values, numbers) = (values.as_mut_ptr().cast(), numbers.as_mut_ptr());
            match length % 4 {
                0 => cntk_reader_minibatch_stream_pad(
                    minibatch,
                    stream,
                    length / 4,
                    0.5,
                    values,
                    value_room,
                    mask.as_mut_ptr(),
                    mask.len(),
                    error,
                ),
                1 => cntk_reader_minibatch_stream_pack(
                    minibatch,
                    stream,
                    values,
                    value_room,
                    numbers,
                    number_room,
                    error,
                ),
                2 => cntk_reader_minibatch_stream_pad_indices(
                    minibatch,
                    stream,
                    length / 4,
                    element,
                    -1,
                    values,
                    value_room,
                    mask.as_mut_ptr(),
                    mask.len(),
                    error,
                ),
                _ => cntk_reader_minibatch_stream_pack_indices(
                    minibatch,
                    stream,
                    element,
                    values,
                    value_room,
                    numbers,
                    number_room,
                    error,
                ),
            }
        });
    }

    fn save(&mut self, choices: &mut Choices<'_>) {
        let mut entries = vec![MaybeUninit::<cntk_reader_state_entry>::uninit(); choices.below(7)];
        let (mut count, room) = (MaybeUninit::new(0), entries.len());
        let reader = self.reader.as_deref();
        // SAFETY: the buffer has room for the stated number of entries.
        let is_known = check(choices, |error| unsafe {
            cntk_reader_state_get(reader, entries.as_mut_ptr().cast(), room, Some(&mut count), error)
        });
        // SAFETY: initialized above.
        let count = unsafe { count.assume_init() }.min(room);
        if is_known && choices.once_in(2) {
            // SAFETY: the call has written `count` entries.
            let mut entries: Vec<cntk_reader_state_entry> =
                entries[..count].iter().map(|entry| unsafe { entry.assume_init() }).collect();
            if let Some(entry) = entries.first_mut() {
                entry.value = number(choices);
            }
            let pointer = if entries.is_empty() { null() } else { entries.as_ptr() };
            // SAFETY: the pointer has the stated number of entries.
            check(choices, |error| unsafe {
                cntk_reader_state_set(self.reader(), pointer, entries.len(), error)
            });
        }
        let mut place = MaybeUninit::new(null_mut());
        check(choices, |error| cntk_reader_checkpoint_save(reader, Some(&mut place), error));
        if let Some(buffer) = taken::<cntk_reader_buffer>(place) {
            let (mut bytes, mut size) = (MaybeUninit::new(null()), MaybeUninit::new(0));
            check(choices, |error| {
                cntk_reader_buffer_get_bytes(Some(&buffer), Some(&mut bytes), Some(&mut size), error)
            });
            // SAFETY: both are initialized; the bytes live as long as the buffer.
            let bytes: &[u8] = unsafe {
                match size.assume_init() {
                    0 => &[],
                    size => std::slice::from_raw_parts(bytes.assume_init(), size),
                }
            };
            if !bytes.is_empty() {
                self.checkpoint = bytes.to_vec();
            }
            // SAFETY: the handle is freed only here.
            unsafe { cntk_reader_buffer_free(Box::into_raw(buffer)) };
        }
    }

    fn restore(&self, choices: &mut Choices<'_>) {
        let mut bytes = self.checkpoint.clone();
        if choices.once_in(4) && !bytes.is_empty() {
            let at = choices.below(bytes.len());
            bytes.truncate(at);
        }
        let pointer = if bytes.is_empty() { null() } else { bytes.as_ptr() };
        // SAFETY: the pointer has the stated number of bytes; the reader is NULL or a handle.
        check(choices, |error| unsafe {
            cntk_reader_checkpoint_restore(self.reader(), pointer, bytes.len(), error)
        });
    }

    fn section(&mut self, choices: &mut Choices<'_>, file: &str) {
        let entry = |key: &'static str, text: &str| cntk_reader_section_entry {
            key: key.as_ptr().cast(),
            key_length: key.len(),
            text: text.as_ptr().cast(),
            text_length: text.len(),
            literal: 0,
            reserved: 0,
        };
        let streams = "[ x = [ dim = 2 ; format = \"dense\" ] : s = [ dim = 3 ; format = \"sparse\" ] ]";
        let mut entries = vec![
            entry("file", file),
            entry("input", streams),
            entry("chunkSizeInBytes", "20"),
            entry("frameMode", "false"),
            entry("precision", "float"),
        ];
        if choices.once_in(4) {
            entries.remove(choices.below(entries.len()));
        }
        let mut place = MaybeUninit::new(null_mut());
        let parent = self.section.as_deref();
        let path = "global:reader";
        // SAFETY: the pointers have the stated numbers of bytes and entries.
        check(choices, |error| unsafe {
            cntk_reader_section_create(
                path.as_ptr().cast(),
                path.len(),
                entries.as_ptr(),
                entries.len(),
                parent,
                Some(&mut place),
                error,
            )
        });
        if let Some(section) = taken(place) {
            cntk_reader_section_free(self.section.replace(section));
        }
        let mut text = vec![0_u8; choices.below(20)];
        let mut length = MaybeUninit::uninit();
        let section = self.section.as_deref();
        // SAFETY: the buffer has the stated size.
        check(choices, |error| unsafe {
            cntk_reader_section_get_path(
                section,
                text.as_mut_ptr().cast(),
                text.len(),
                Some(&mut length),
                error,
            )
        });
    }

    fn deserializer(&mut self, choices: &mut Choices<'_>) {
        let name = *choices.pick(&[
            "CNTKTextFormatDeserializer",
            "CNTKBinaryFormatDeserializer",
            "HTKFeatureDeserializer",
            "ImageDeserializer",
            "",
        ]);
        let (section, mut place) = (self.section.as_deref(), MaybeUninit::new(null_mut()));
        // SAFETY: the pointer has the stated number of bytes; NULL stands for a corpus with
        // defaults.
        check(choices, |error| unsafe {
            cntk_reader_deserializer_open(
                name.as_ptr().cast(),
                name.len(),
                section,
                null(),
                Some(&mut place),
                error,
            )
        });
        if let Some(deserializer) = taken(place) {
            cntk_reader_deserializer_free(self.deserializer.replace(deserializer));
        }
        let (deserializer, index) = (self.deserializer.as_deref(), number(choices));
        let mut info = Room::<cntk_reader_deserializer_info>::chosen(choices);
        let mut stream = Room::<cntk_reader_stream_info>::chosen(choices);
        let mut chunk = Room::<cntk_reader_chunk_info>::chosen(choices);
        let mut sequences = vec![MaybeUninit::<cntk_reader_sequence_info>::uninit(); choices.below(5)];
        let (pointer, room) = (sequences.as_mut_ptr().cast(), sequences.len());
        let (mut count, mut found) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let (mut sequence, mut loaded) = (MaybeUninit::uninit(), MaybeUninit::new(null_mut()));
        // SAFETY: the structs have their stated sizes, or sizes that the library refuses.
        unsafe {
            check(choices, |error| cntk_reader_deserializer_describe(deserializer, info.pointer(), error));
            check(choices, |error| {
                cntk_reader_deserializer_describe_stream(
                    deserializer,
                    index as usize,
                    stream.pointer(),
                    error,
                )
            });
            check(choices, |error| {
                cntk_reader_deserializer_describe_chunk(deserializer, index as u32, chunk.pointer(), error)
            });
            check(choices, |error| {
                cntk_reader_deserializer_list_sequences(
                    deserializer,
                    index as u32,
                    pointer,
                    room,
                    Some(&mut count),
                    error,
                )
            });
        }
        check(choices, |error| {
            cntk_reader_deserializer_find_sequence(
                deserializer,
                index,
                Some(&mut found),
                Some(&mut sequence),
                error,
            )
        });
        check(choices, |error| {
            cntk_reader_deserializer_load_chunk(deserializer, index as u32, Some(&mut loaded), error)
        });
        if let Some(chunk) = taken(loaded) {
            cntk_reader_chunk_free(self.chunk.replace(chunk));
        }
    }

    fn chunk(&self, choices: &mut Choices<'_>) {
        let (stream, index) = (choices.below(3), number(choices) as u32);
        let mut sequence = Room::<cntk_reader_capi::host::chunk::cntk_reader_sequence>::chosen(choices);
        let mut decoded = MaybeUninit::new(null_mut());
        let chunk = self.chunk.as_deref();
        // SAFETY: the struct has its stated size, or one that the library refuses.
        unsafe {
            check(choices, |error| {
                cntk_reader_chunk_get_sequence(chunk, stream, index, sequence.pointer(), error)
            });
            check(choices, |error| {
                cntk_reader_chunk_decode_sequence(
                    chunk,
                    stream,
                    index,
                    sequence.pointer(),
                    Some(&mut decoded),
                    error,
                )
            });
        }
        cntk_reader_decoded_free(taken::<cntk_reader_decoded>(decoded));
    }
}

impl Handles {
    fn free(mut self) {
        for &minibatch in &self.minibatches {
            // SAFETY: releases a reference that the list owned.
            unsafe { cntk_reader_minibatch_release(minibatch) };
        }
        // SAFETY: the handle is freed only here.
        unsafe { cntk_reader_free(given_up(self.reader.take())) };
        cntk_reader_chunk_free(self.chunk.take());
        cntk_reader_deserializer_free(self.deserializer.take());
        cntk_reader_section_free(self.section.take());
        cancelling::free();
        transform::check_all_given_back();
    }
}

/// The input is a sequence of calls.
pub fn run(input: &[u8]) {
    let case = Case::of_content(input);
    let file = case.write("data.ctf", DATA.as_bytes());
    let mut handles = Handles { file: file.clone(), ..Handles::default() };
    let mut choices = Choices::new(case.content);
    cancelling::begin();
    for _ in 0..CALLS {
        if choices.is_at_end() {
            break;
        }
        match choices.below(19) {
            0 => handles.open(&mut choices),
            1 | 2 => handles.start(&mut choices),
            3..=6 => handles.read(&mut choices),
            7 => handles.configure(&mut choices),
            8 => handles.describe(&mut choices),
            9 => handles.look(&mut choices),
            10 => handles.form(&mut choices),
            11 => handles.save(&mut choices),
            12 => handles.restore(&mut choices),
            13 => handles.section(&mut choices, &file),
            14 => handles.deserializer(&mut choices),
            15 | 16 => cancelling::change(&mut choices),
            17 => conversion::run(&mut choices, &case, &file),
            _ => {
                handles.chunk(&mut choices);
                if choices.once_in(8) {
                    // SAFETY: the handle is freed only here.
                    unsafe { cntk_reader_free(given_up(handles.reader.take())) };
                }
            }
        }
    }
    handles.free();
}
