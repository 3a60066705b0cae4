//! The sequences of a stream, padded or packed, written to memory of the caller.

use super::call::{call, given, outputs};
use super::error::cntk_reader_error;
use super::minibatch_handle::cntk_reader_minibatch;
use super::status::cntk_reader_status;
use cntk_reader_core::stream::{Element, ElementType};
use cntk_reader_core::{Error, Result, with_element};
use cntk_reader_engine::forms::Forms;
use std::ffi::c_void;
use std::fmt::Display;
use std::mem::MaybeUninit;

impl cntk_reader_minibatch {
    fn forms(&self, stream: usize) -> Result<Forms<'_>> {
        let part = self.part(stream)?;
        let shared = self.shared()?;
        // Looking up a key takes a lock that another thread may have held when the process forked.
        let corpus = self.process.is_current().then_some(&*shared.corpus);
        Ok(Forms::new(&self.content, part, &shared.stream(stream)?.info.name, corpus))
    }
}

/// The element code of a caller's indices.
fn index_element(element: u32) -> Result<ElementType> {
    match ElementType::from_number(element) {
        Some(element @ (ElementType::Int32 | ElementType::Int64)) => Ok(element),
        _ => Err(Error::argument(format!("The type {element} is none of indices."))
            .with_detail("Expected CNTK_READER_ELEMENT_INT32 or CNTK_READER_ELEMENT_INT64.")),
    }
}

/// The caller's fill as a value of a stream.
fn fill_of<T: Element>(fill: f64) -> Result<T> {
    T::of_number(fill).ok_or_else(|| no_value(fill, T::TYPE))
}

fn no_value(fill: impl Display, element: ElementType) -> Error {
    Error::argument(format!("The fill {fill} is no value of the type {}.", element.name()))
        .with_detail("Pass one that the type has.")
}

/// Writes the sequences of stream `index` side by side, filled up to `length` samples each.
///
/// With `sequences`, `longest` and `sample_size` of cntk_reader_minibatch_stream: `values` gets
/// sequences * length samples of `sample_size` values, of the stream's element type, and must have
/// room for them: `value_capacity` values. `length` must not be less than `longest`. `values` may
/// be NULL if `value_capacity` is 0: the values are left out then. Past the end of a sequence the
/// values are `fill`, which must be a value of that type. `mask` gets sequences * length bytes, 1
/// for each sample of a sequence, else 0; it has room for `mask_capacity` bytes, and may be NULL if
/// that is 0.
///
/// The sequences are in the order of their numbers, which is that of the keys, and gaps are left out. Of a truncated sequence it
/// is the part in this minibatch. Samples of a sparse stream become dense; more than 2^31 values of them are an error.
/// May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_stream_pad(
    minibatch: Option<&cntk_reader_minibatch>,
    index: usize,
    length: usize,
    fill: f64,
    values: *mut c_void,
    value_capacity: usize,
    mask: *mut u8,
    mask_capacity: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let forms = given(minibatch, "minibatch")?.forms(index)?;
        // A length that is too short is an error also where nothing is written.
        forms.padded_size(length, 1)?;
        if value_capacity > 0 {
            with_element!(forms.element(), T => {
                let fill = fill_of::<T>(fill)?;
                // SAFETY: `values` is NULL or has room for `value_capacity` values of the stream's
                // type, as documented above.
                let mut values = unsafe { outputs::<T>(values.cast(), value_capacity, "values") }?;
                forms.pad(length, fill, &mut values)
            })?;
        }
        // SAFETY: `mask` is NULL or has room for `mask_capacity` bytes, as documented above.
        unsafe { write_mask(&forms, length, mask, mask_capacity) }
    })
}

/// Writes the samples of stream `index`, one sequence after the other.
///
/// With `sequences`, `samples` and `sample_size` of cntk_reader_minibatch_stream: `values` gets samples * sample_size values of the
/// stream's element type, and has room for `value_capacity` of them. `offsets` gets sequences + 1 numbers: the number of each
/// sequence's first sample, and at the end `samples`; it has room for `offset_capacity`. Either pointer may be NULL if its
/// capacity is 0: its part is left out then. If `is_packed` is set, the packed values of a dense stream are those that the
/// minibatch has, from their start.
///
/// Order, truncated sequences and sparse streams are as for cntk_reader_minibatch_stream_pad. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_stream_pack(
    minibatch: Option<&cntk_reader_minibatch>,
    index: usize,
    values: *mut c_void,
    value_capacity: usize,
    offsets: *mut i32,
    offset_capacity: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let forms = given(minibatch, "minibatch")?.forms(index)?;
        // SAFETY: `offsets` is NULL or has room for `offset_capacity` numbers, as documented above.
        unsafe { write_offsets(&forms, offsets, offset_capacity) }?;
        if value_capacity == 0 {
            return Ok(());
        }
        with_element!(forms.element(), T => {
            // SAFETY: `values` is NULL or has room for `value_capacity` values of the stream's
            // type, as documented above.
            let mut values = unsafe { outputs::<T>(values.cast(), value_capacity, "values") }?;
            forms.pack(&mut values)
        })
    })
}

/// Writes the index of the 1 in each sample of stream `index`, whose samples are one-hot:
/// sequences * length indices in the order of cntk_reader_minibatch_stream_pad, and `fill` past the
/// end of a sequence. `element` is the type of the indices and of `fill`:
/// `CNTK_READER_ELEMENT_INT32` or `CNTK_READER_ELEMENT_INT64`. `indices` has room for
/// `index_capacity` of them, and may be NULL if that is 0. A sample that is not one-hot is an error.
///
/// The stream may be sparse or dense. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_stream_pad_indices(
    minibatch: Option<&cntk_reader_minibatch>,
    index: usize,
    length: usize,
    element: u32,
    fill: i64,
    indices: *mut c_void,
    index_capacity: usize,
    mask: *mut u8,
    mask_capacity: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let forms = given(minibatch, "minibatch")?.forms(index)?;
        forms.padded_size(length, 1)?;
        if index_capacity > 0 {
            // SAFETY: `indices` is NULL or has room for `index_capacity` indices of this type, as
            // documented above.
            unsafe {
                match index_element(element)? {
                    ElementType::Int64 => {
                        let mut indices = outputs::<i64>(indices.cast(), index_capacity, "indices")?;
                        forms.pad_indices(length, fill, &mut indices)
                    }
                    _ => {
                        let fill = i32::try_from(fill).map_err(|_| no_value(fill, ElementType::Int32))?;
                        let mut indices = outputs::<i32>(indices.cast(), index_capacity, "indices")?;
                        forms.pad_indices(length, fill, &mut indices)
                    }
                }
            }?;
        }
        // SAFETY: `mask` is NULL or has room for `mask_capacity` bytes, as documented above.
        unsafe { write_mask(&forms, length, mask, mask_capacity) }
    })
}

/// Writes the index of the 1 in each sample of stream `index`, whose samples are one-hot: `samples`
/// indices in the order of cntk_reader_minibatch_stream_pack. `element` is their type, as for
/// cntk_reader_minibatch_stream_pad_indices. `indices` has room for `index_capacity` of them, and
/// may be NULL if that is 0; `offsets` is as there. A sample that is not one-hot is an error.
///
/// The stream may be sparse or dense. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_stream_pack_indices(
    minibatch: Option<&cntk_reader_minibatch>,
    index: usize,
    element: u32,
    indices: *mut c_void,
    index_capacity: usize,
    offsets: *mut i32,
    offset_capacity: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let forms = given(minibatch, "minibatch")?.forms(index)?;
        // SAFETY: `offsets` is NULL or has room for `offset_capacity` numbers, as documented above.
        unsafe { write_offsets(&forms, offsets, offset_capacity) }?;
        if index_capacity == 0 {
            return Ok(());
        }
        // SAFETY: `indices` is NULL or has room for `index_capacity` indices of this type, as
        // documented above.
        unsafe {
            match index_element(element)? {
                ElementType::Int64 => {
                    forms.pack_indices(&mut outputs::<i64>(indices.cast(), index_capacity, "indices")?)
                }
                _ => forms.pack_indices(&mut outputs::<i32>(indices.cast(), index_capacity, "indices")?),
            }
        }
    })
}

/// Writes the columns of stream `index`, which is sparse, with ascending indices in each column, each index once. Values of an index
/// that a sample has more than once are added up.
///
/// With `value_count` and `columns` of cntk_reader_minibatch_stream: `values` has room for `value_capacity` values of the stream's element
/// type, and `indices` for as many indices, at least `value_count`; `offsets` has room for `offset_capacity` numbers, at least columns + 1.
/// `count` gets the number of values and indices that were written. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_stream_canonical(
    minibatch: Option<&cntk_reader_minibatch>,
    index: usize,
    values: *mut c_void,
    indices: *mut i32,
    value_capacity: usize,
    offsets: *mut i32,
    offset_capacity: usize,
    count: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let count = given(count, "count")?.write(0);
        let forms = given(minibatch, "minibatch")?.forms(index)?;
        // SAFETY: each is NULL or has room for what its capacity says, as documented above.
        let (mut indices, mut offsets) = unsafe {
            (outputs(indices, value_capacity, "indices")?, outputs(offsets, offset_capacity, "offsets")?)
        };
        *count = with_element!(forms.element(), T => {
            // SAFETY: as above.
            let mut values = unsafe { outputs::<T>(values.cast(), value_capacity, "values") }?;
            forms.canonical(&mut values, &mut indices, &mut offsets)
        })?;
        Ok(())
    })
}

/// Writes the entries of stream `index`, which is sparse, as an embedding of bags takes them: one
/// sequence after the other in the order of cntk_reader_minibatch_stream_pack, without gaps, the
/// entries of a sample in the data's order.
///
/// With `value_count` and `samples` of cntk_reader_minibatch_stream: `indices` has room for
/// `entry_capacity` indices of the type `element`, as for cntk_reader_minibatch_stream_pad_indices,
/// and `weights` for as many values of the stream's element type, at least `value_count`. `offsets`
/// has room for `offset_capacity` numbers, at least samples + 1: the number of each sample's first
/// entry, then the number of all entries. The offsets of cntk_reader_minibatch_stream_pack say where
/// sequences begin among the samples. `are_ones` gets 1 if all weights are 1, otherwise 0.
///
/// A dense stream is an error; in truncated minibatches all streams are dense. May be called from
/// any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_stream_bags(
    minibatch: Option<&cntk_reader_minibatch>,
    index: usize,
    element: u32,
    indices: *mut c_void,
    weights: *mut c_void,
    entry_capacity: usize,
    offsets: *mut i32,
    offset_capacity: usize,
    are_ones: Option<&mut MaybeUninit<u8>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let are_ones = given(are_ones, "are_ones")?.write(0);
        let forms = given(minibatch, "minibatch")?.forms(index)?;
        let index_type = index_element(element)?;
        // SAFETY: `offsets` is NULL or has room for what its capacity says, as documented above.
        let mut offsets = unsafe { outputs(offsets, offset_capacity, "offsets") }?;
        *are_ones = u8::from(with_element!(forms.element(), T => {
            // SAFETY: as above.
            let mut weights = unsafe { outputs::<T>(weights.cast(), entry_capacity, "weights") }?;
            match index_type {
                ElementType::Int64 => {
                    // SAFETY: as above.
                    let mut indices = unsafe { outputs::<i64>(indices.cast(), entry_capacity, "indices") }?;
                    forms.bags(&mut indices, &mut weights, &mut offsets)
                }
                _ => {
                    // SAFETY: as above.
                    let mut indices = unsafe { outputs::<i32>(indices.cast(), entry_capacity, "indices") }?;
                    forms.bags(&mut indices, &mut weights, &mut offsets)
                }
            }
        })?);
        Ok(())
    })
}

/// # Safety
/// `mask` is NULL or has room for `capacity` bytes.
unsafe fn write_mask(forms: &Forms<'_>, length: usize, mask: *mut u8, capacity: usize) -> Result<()> {
    if capacity == 0 {
        return Ok(());
    }
    // SAFETY: by this function's contract; a `bool` has the size of a byte, and is one byte that is 0 or 1.
    let mut mask = unsafe { outputs::<bool>(mask.cast(), capacity, "mask") }?;
    forms.mask(length, &mut mask)
}

/// # Safety
/// `offsets` is NULL or has room for `capacity` numbers.
unsafe fn write_offsets(forms: &Forms<'_>, offsets: *mut i32, capacity: usize) -> Result<()> {
    if capacity == 0 {
        return Ok(());
    }
    // SAFETY: by this function's contract.
    let mut offsets = unsafe { outputs(offsets, capacity, "offsets") }?;
    forms.offsets(&mut offsets)
}
