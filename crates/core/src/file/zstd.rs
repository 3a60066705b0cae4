//! zstd's functions, with per-thread memory.

#![allow(unsafe_code, reason = "decompresses into uninitialized memory")]

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::mem::MaybeUninit;
use zstd_safe::{CCtx, CParameter, DCtx, InBuffer, OutBuffer, WriteBuf, get_error_name};

/// A thread's context and buffer for decompression.
pub struct Unpacker {
    context: DCtx<'static>,
    /// Buffer for compressed bytes.
    pub packed: Vec<u8>,
}

thread_local! {
    static UNPACKER: Cell<Option<Box<Unpacker>>> = const { Cell::new(None) };
}

/// Maximum capacity of the buffer that a thread keeps.
const MAX_KEPT: usize = 4 << 20;

impl Unpacker {
    /// Runs `work` with the thread's unpacker.
    pub fn with<R>(work: impl FnOnce(&mut Unpacker) -> R) -> R {
        // Taken out and put back: after a panic, the next use creates a new one.
        let mut unpacker = UNPACKER
            .try_with(Cell::take)
            .ok()
            .flatten()
            .unwrap_or_else(|| Box::new(Unpacker { context: DCtx::create(), packed: Vec::new() }));
        let result = work(&mut unpacker);
        if unpacker.packed.capacity() > MAX_KEPT {
            unpacker.packed = Vec::new();
        }
        let _ = UNPACKER.try_with(|place| place.set(Some(unpacker)));
        result
    }

    /// Unpacks whole frames, `packed[range]`, into `memory`, which must have exactly their size. On
    /// success, all of `memory` is initialized; otherwise the error says what is wrong with the
    /// frames.
    pub fn unpack(
        &mut self,
        range: std::ops::Range<usize>,
        memory: &mut [MaybeUninit<u8>],
    ) -> Result<(), String> {
        let size = memory.len();
        let mut target = Target { memory, filled: 0 };
        match self.context.decompress(&mut target, &self.packed[range]) {
            Ok(count) if count == size => Ok(()),
            Ok(count) => Err(format!("it has {count} bytes, not {size} as the table says")),
            Err(code) => Err(get_error_name(code).to_owned()),
        }
    }
}

/// The output memory of zstd.
struct Target<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    filled: usize,
}

// SAFETY: `as_mut_ptr` and `capacity` describe one live exclusive slice. `as_slice` returns the
// bytes that the caller of `filled_until` has initialized, within the slice.
unsafe impl WriteBuf for Target<'_> {
    fn as_slice(&self) -> &[u8] {
        let filled = &self.memory[..self.filled];
        // SAFETY: the first `filled` bytes are initialized by the contract of `filled_until`, and
        // `MaybeUninit<u8>` has the layout of `u8`.
        unsafe { &*(std::ptr::from_ref(filled) as *const [u8]) }
    }

    fn capacity(&self) -> usize {
        self.memory.len()
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast()
    }

    unsafe fn filled_until(&mut self, n: usize) {
        self.filled = n;
    }
}

/// Unpacks consecutive frames of any size from front to back.
pub struct StreamUnpacker<R> {
    context: DCtx<'static>,
    input: R,
    /// Number of compressed bytes consumed so far.
    at: u64,
    /// Offset of the frame that is being unpacked.
    frame: u64,
    is_inside: bool,
}

impl<R: BufRead> StreamUnpacker<R> {
    pub fn new(input: R) -> Self {
        StreamUnpacker { context: DCtx::create(), input, at: 0, frame: 0, is_inside: false }
    }

    /// Returns the input, without the consumed bytes.
    pub fn into_input(self) -> R {
        self.input
    }

    /// Returns the offset of the frame that is being unpacked, in compressed bytes.
    pub fn frame(&self) -> u64 {
        self.frame
    }
}

impl<R: BufRead> Read for StreamUnpacker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let bytes = self.input.fill_buf()?;
            if bytes.is_empty() && !self.is_inside {
                return Ok(0);
            }
            let is_end = bytes.is_empty();
            let mut input = InBuffer::around(bytes);
            let mut output = OutBuffer::around(buffer);
            let hint = self.context.decompress_stream(&mut output, &mut input);
            let (taken, made) = (input.pos, output.pos());
            let hint =
                hint.map_err(|code| io::Error::new(io::ErrorKind::InvalidData, get_error_name(code)))?;
            self.input.consume(taken);
            self.at += taken as u64;
            self.is_inside = hint != 0;
            if !self.is_inside {
                self.frame = self.at;
            }
            if made > 0 {
                return Ok(made);
            }
            if is_end {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the file ends too early"));
            }
        }
    }
}

/// Compresses blocks of bytes into frames that state their size and have a checksum.
pub struct Packer(CCtx<'static>);

impl Packer {
    /// Creates a packer whose matches have at least 7 bytes: data are compressed once but unpacked
    /// many times, and each match costs time when unpacking.
    pub fn new(level: u32) -> Result<Packer, String> {
        let mut context = CCtx::create();
        let level = CParameter::CompressionLevel(level.min(i32::MAX as u32) as i32);
        for parameter in [level, CParameter::MinMatch(7), CParameter::ChecksumFlag(true)] {
            context.set_parameter(parameter).map_err(|code| get_error_name(code).to_owned())?;
        }
        Ok(Packer(context))
    }

    /// Compresses bytes to one frame, replacing the content of `frame`, which must have room for
    /// [`most_packed`] bytes.
    pub fn pack(&mut self, bytes: &[u8], frame: &mut Vec<u8>) -> Result<(), String> {
        self.0.compress2(frame, bytes).map(drop).map_err(|code| get_error_name(code).to_owned())
    }
}

/// Returns the maximum size of a frame with `bytes` bytes of data.
pub fn most_packed(bytes: usize) -> usize {
    zstd_safe::compress_bound(bytes)
}
