//! Conversions from text to binary and back, with arbitrary options: the output reads like the
//! data, or no output is left.

use super::DATA;
use super::made::{Room, check, given_up, number, taken};
use crate::case::Case;
use crate::choices::Choices;
use cntk_reader_capi::conversion::{cntk_reader_conversion, cntk_reader_conversion_run};
use cntk_reader_capi::epoch::{cntk_reader_epoch, cntk_reader_epoch_start};
use cntk_reader_capi::forms::cntk_reader_minibatch_stream_pack;
use cntk_reader_capi::minibatch::{cntk_reader_minibatch_read, cntk_reader_minibatch_release};
use cntk_reader_capi::reader::{cntk_reader, cntk_reader_free};
use cntk_reader_capi::source::{cntk_reader_open, cntk_reader_source};
use std::ffi::{CString, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::{null, null_mut};

/// The streams of [`DATA`], in the order of a reader of the text.
const STREAMS: &str = "s s sparse 3\nx x dense 2";

/// Other streams, most of which do not match the data.
const ODD_STREAMS: [&str; 6] = [
    "",
    "x x dense 2",
    "s x dense 2\nx s sparse 3",
    "x x dense 3\ns s sparse 2",
    "x x dense 2\nx s dense 3",
    "x",
];

/// The number of progress callbacks that continue the conversion.
struct Patience(u64);

unsafe extern "C-unwind" fn progress(userdata: *mut c_void, _: u64, _: u64, _: u64) -> u32 {
    // SAFETY: `userdata` is the `Patience` passed to the conversion, which outlives it.
    let patience = unsafe { &mut *userdata.cast::<Patience>() };
    let goes_on = patience.0 > 0;
    patience.0 = patience.0.saturating_sub(1);
    u32::from(!goes_on)
}

/// Options of a conversion from text to binary.
struct Options {
    streams: CString,
    chunk_size: u64,
    double_precision: u32,
    ctf2bin_compatible: u32,
}

impl Options {
    fn chosen(choices: &mut Choices<'_>) -> Options {
        let streams = if choices.once_in(8) { choices.pick(&ODD_STREAMS) } else { STREAMS };
        Options {
            streams: text(streams),
            chunk_size: if choices.once_in(2) { number(choices) } else { 1 + choices.below(200) as u64 },
            double_precision: if choices.once_in(32) {
                number(choices) as u32
            } else {
                choices.below(2) as u32
            },
            ctf2bin_compatible: choices.below(2) as u32,
        }
    }

    /// Whether the conversion of [`DATA`] must succeed, and its output must read like the data.
    fn fit(&self) -> bool {
        self.streams.to_bytes() == STREAMS.as_bytes() && self.double_precision < 2
    }

    fn conversion(&self, input: &CString, output: &CString) -> cntk_reader_conversion {
        cntk_reader_conversion {
            direction: 0,
            input: input.as_ptr(),
            output: output.as_ptr(),
            streams: self.streams.as_ptr(),
            chunk_size: self.chunk_size,
            double_precision: self.double_precision,
            ctf2bin_compatible: self.ctf2bin_compatible,
            ..cntk_reader_conversion::default()
        }
    }
}

fn text(text: &str) -> CString {
    CString::new(text).expect("no NUL")
}

/// Runs a conversion whose struct has its exact size. Returns whether it succeeded.
fn run_one(choices: &mut Choices<'_>, conversion: &cntk_reader_conversion) -> bool {
    let mut room = Room::whole().with(conversion);
    // SAFETY: `room` holds a struct of its stated size, and the texts outlive the call.
    check(choices, |error| unsafe { cntk_reader_conversion_run(room.pointer(), error) })
}

/// Runs a conversion that may fail: the struct has any size, and the listener may stop it.
fn run_disturbed(choices: &mut Choices<'_>, conversion: &cntk_reader_conversion) -> bool {
    let mut patience = Patience(number(choices));
    let mut conversion = *conversion;
    if choices.once_in(2) {
        conversion.progress = Some(progress);
        conversion.userdata = (&raw mut patience).cast();
    }
    let mut room = Room::chosen(choices).with(&conversion);
    // SAFETY: `room` holds a struct of its stated size; texts and userdata outlive the call.
    check(choices, |error| unsafe { cntk_reader_conversion_run(room.pointer(), error) })
}

/// Converts the data of the case to binary, back to text, to binary again, and to zstd frames.
pub fn run(choices: &mut Choices<'_>, case: &Case<'_>, data: &str) {
    let options = Options::chosen(choices);
    let [input, binary, back, again, packed] =
        ["data.ctf", "a.cbf", "b.ctf", "c.cbf", "a.cbf.zst"].map(|name| case.path(name));
    assert_eq!(input, data);
    let [input, first, second, third, frames] =
        [&input, &binary, &back, &again, &packed].map(|path| text(path));
    if choices.once_in(4) {
        return other(choices, case, &input);
    }
    let conversion = options.conversion(&input, &first);
    if choices.once_in(3) {
        remove(&binary);
        if !run_disturbed(choices, &conversion) {
            assert!(!Path::new(&binary).exists(), "a conversion that has failed leaves a file");
            return;
        }
    }
    let is_converted = run_one(choices, &conversion);
    assert!(is_converted || !options.fit(), "the conversion of good data fails");
    if !is_converted {
        return;
    }
    let to_text = cntk_reader_conversion {
        direction: 1,
        input: first.as_ptr(),
        output: second.as_ptr(),
        ..cntk_reader_conversion::default()
    };
    assert!(run_one(choices, &to_text), "a file that was written cannot be converted");
    if !options.fit() {
        return;
    }
    assert!(
        run_one(choices, &options.conversion(&second, &third)),
        "a text that was written cannot be converted"
    );
    let read = |path: &str| std::fs::read(path).expect("a file that was written");
    // Ids have become numbers, which the binary file lacks.
    assert!(read(&binary) == read(&again), "text and binary are not the same data");
    let level = choices.below(4) as u32;
    let to_frames = cntk_reader_conversion {
        direction: 11,
        input: first.as_ptr(),
        output: frames.as_ptr(),
        compression_level: level,
        ..cntk_reader_conversion::default()
    };
    assert!(run_one(choices, &to_frames), "a file cannot be compressed");
    let precision = if options.double_precision == 1 { "double" } else { "float" };
    let of_data = contents(choices, data, precision);
    for path in [&binary, &back, &packed] {
        assert!(contents(choices, path, precision) == of_data, "{path} reads as other data");
    }
}

/// Runs a conversion in any direction, of the text or of earlier outputs.
fn other(choices: &mut Choices<'_>, case: &Case<'_>, input: &CString) {
    let [binary, output, script] = ["a.cbf", "other", "other.scp"].map(|name| text(&case.path(name)));
    let conversion = cntk_reader_conversion {
        direction: if choices.once_in(8) { number(choices) as u32 } else { choices.below(14) as u32 },
        input: if choices.once_in(2) { binary.as_ptr() } else { input.as_ptr() },
        output: if choices.once_in(16) { null() } else { output.as_ptr() },
        streams: if choices.once_in(4) { null() } else { c"s".as_ptr() },
        script: if choices.once_in(2) { null() } else { script.as_ptr() },
        states: if choices.once_in(2) { null() } else { input.as_ptr() },
        number_ids: choices.below(2) as u32,
        compression_level: number(choices) as u32,
        ..cntk_reader_conversion::default()
    };
    run_disturbed(choices, &conversion);
    remove(&case.path("other"));
    remove(&case.path("other.scp"));
}

fn remove(path: &str) {
    _ = std::fs::remove_file(path);
}

/// Returns the values of both streams of a file, and the offsets of their sequences.
fn contents(choices: &mut Choices<'_>, path: &str, precision: &str) -> Vec<(Vec<u64>, Vec<i32>)> {
    let deserializer = match path.ends_with(".ctf") {
        true => format!(
            "type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader ; file = \"{path}\"\n\
             input = [ x = [ dim = 2 ; format = dense ] ; s = [ dim = 3 ; format = sparse ] ]"
        ),
        false => {
            format!("type = CNTKBinaryFormatDeserializer ; module = CNTKBinaryReader ; file = \"{path}\"")
        }
    };
    let config = format!(
        "traceLevel = 0 ; randomize = false ; precision = \"{precision}\"\ndeserializers = ([ {deserializer} ])"
    );
    let source = cntk_reader_source {
        text: config.as_ptr().cast(),
        text_length: config.len(),
        ..cntk_reader_source::default()
    };
    let epoch =
        cntk_reader_epoch { workers: 1, minibatch_size: 100, sweeps: 1, ..cntk_reader_epoch::default() };
    let (mut source, mut epoch) = (Room::whole().with(&source), Room::whole().with(&epoch));
    let mut place = MaybeUninit::new(null_mut());
    // SAFETY: the struct has its stated size, or one that the library refuses; the text outlives
    // the call.
    let is_open =
        check(choices, |error| unsafe { cntk_reader_open(source.pointer(), Some(&mut place), error) });
    assert!(is_open, "{path} cannot be read");
    let reader = taken::<cntk_reader>(place);
    let handle = reader.as_deref().map_or(null_mut(), |reader| (&raw const *reader).cast_mut());
    let mut minibatch = MaybeUninit::new(null());
    // SAFETY: a reader, and a struct of its stated size.
    let is_read = unsafe {
        check(choices, |error| cntk_reader_epoch_start(handle, epoch.pointer(), error))
            && check(choices, |error| cntk_reader_minibatch_read(handle, Some(&mut minibatch), error))
    };
    assert!(is_read, "{path} cannot be read");
    // SAFETY: the call has written a minibatch, of which this function owns a reference.
    let whole = unsafe { minibatch.assume_init().as_ref() };
    let packed = (0..2).map(|stream| {
        let (mut values, mut offsets) = (vec![0u64; DATA.len()], vec![0i32; DATA.len()]);
        let (room, count) = (values.len(), offsets.len());
        // SAFETY: the buffers hold that many values, of at most 8 bytes, and offsets.
        let is_packed = check(choices, |error| unsafe {
            let (values, offsets) = (values.as_mut_ptr().cast(), offsets.as_mut_ptr());
            cntk_reader_minibatch_stream_pack(whole, stream, values, room, offsets, count, error)
        });
        assert!(is_packed, "{path} cannot be packed");
        (values, offsets)
    });
    let packed = packed.collect();
    // SAFETY: releases the only reference and the reader that this function owns.
    unsafe {
        cntk_reader_minibatch_release(minibatch.assume_init());
        cntk_reader_free(given_up(reader));
    }
    packed
}
