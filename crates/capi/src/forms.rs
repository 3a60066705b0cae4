//! A stream's sequences, padded or packed, written to the caller's memory.

use super::call::{call, given, outputs};
use super::error::cntk_reader_error;
use super::handle::object;
use super::minibatch_handle::{HeldMinibatch, cntk_reader_minibatch};
use super::status::cntk_reader_status;
use cntk_reader_core::stream::{Element, ElementType};
use cntk_reader_core::{Error, Result, with_element};
use cntk_reader_engine::forms::Forms;
use std::ffi::c_void;
use std::fmt::Display;
use std::mem::MaybeUninit;

impl HeldMinibatch {
    fn forms(&self, stream: usize) -> Result<Forms<'_>> {
        let part = self.part(stream)?;
        let shared = self.shared()?;
        // Looking up a key takes a lock that another thread may have held at the time of the fork.
        let corpus = self.process.is_current().then_some(&*shared.corpus);
        Ok(Forms::new(&self.content, part, &shared.stream(stream)?.info.name, corpus))
    }
}

/// Parses the element type of the caller's indices.
fn index_element(element: u32) -> Result<ElementType> {
    match ElementType::from_number(element) {
        Some(element @ (ElementType::Int32 | ElementType::Int64)) => Ok(element),
        _ => Err(Error::argument(format!("Indices cannot have the element type {element}."))
            .with_detail("Expected CNTK_READER_ELEMENT_INT32 or CNTK_READER_ELEMENT_INT64.")),
    }
}

/// Converts the caller's fill value to the stream's element type.
fn fill_of<T: Element>(fill: f64) -> Result<T> {
    T::of_number(fill).ok_or_else(|| unrepresentable(fill, T::TYPE))
}

fn unrepresentable(fill: impl Display, element: ElementType) -> Error {
    Error::argument(format!("The fill value {fill} cannot be represented as {}.", element.name()))
        .with_detail("Pass a value that the element type can represent.")
}

/// Writes the sequences of stream `index`, padded to `length` samples each.
///
/// In terms of the members of cntk_reader_minibatch_stream, `values` receives sequences * length
/// samples of `sample_size` values each, of the stream's element type. `value_capacity` is its
/// capacity in values. `values` may be NULL if `value_capacity` is 0; no values are written then.
/// `length` must be at least `longest`. Samples past the end of a sequence are set to `fill`, which
/// must be representable in the element type. `mask` receives sequences * length bytes, 1 for each
/// sample of a sequence and 0 for padding; it may be NULL if `mask_capacity` is 0.
///
/// Sequences appear in the order of the minibatch's keys, without gaps. A truncated sequence
/// contributes the part that lies in this minibatch. Samples of a sparse stream are written
/// densely; more than 2^31 values are an error. May be called from any thread.
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
        let forms = object!(minibatch)?.forms(index)?;
        // A `length` that is too short is an error even if nothing is written.
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

/// Writes the samples of stream `index`, sequence by sequence without padding.
///
/// In terms of the members of cntk_reader_minibatch_stream, `values` receives samples * sample_size
/// values of the stream's element type; `value_capacity` is its capacity. `offsets` receives
/// sequences + 1 numbers: the index of each sequence's first sample, then `samples`;
/// `offset_capacity` is its capacity. Either pointer may be NULL if its capacity is 0; that output
/// is skipped then. If `is_packed` is set for a dense stream, the minibatch already holds these
/// values at the start of its `values`.
///
/// Order, truncated sequences and sparse streams are treated as in
/// cntk_reader_minibatch_stream_pad. May be called from any thread.
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
        let forms = object!(minibatch)?.forms(index)?;
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

/// Writes the class index of each one-hot sample of stream `index`, padded to `length` samples per
/// sequence.
///
/// `indices` receives sequences * length indices, in the order of cntk_reader_minibatch_stream_pad,
/// with `fill` past the end of each sequence. `element` is the type of the indices,
/// `CNTK_READER_ELEMENT_INT32` or `CNTK_READER_ELEMENT_INT64`, and `fill` must be representable in
/// it. `index_capacity` is the capacity of `indices`, which may be NULL if that is 0. `mask` is as
/// for cntk_reader_minibatch_stream_pad. A sample that is not one-hot is an error.
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
        let forms = object!(minibatch)?.forms(index)?;
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
                        let fill =
                            i32::try_from(fill).map_err(|_| unrepresentable(fill, ElementType::Int32))?;
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

/// Writes the class index of each one-hot sample of stream `index`, sequence by sequence without
/// padding.
///
/// `indices` receives `samples` indices in the order of cntk_reader_minibatch_stream_pack.
/// `element` is their type, as for cntk_reader_minibatch_stream_pad_indices. `index_capacity` is
/// the capacity of `indices`, which may be NULL if that is 0. `offsets` is as for
/// cntk_reader_minibatch_stream_pack. A sample that is not one-hot is an error.
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
        let forms = object!(minibatch)?.forms(index)?;
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

/// Writes the columns of sparse stream `index` in canonical form: ascending, unique indices in each
/// column. Values with the same index are added up.
///
/// In terms of the members of cntk_reader_minibatch_stream, `values` (of the stream's element type)
/// and `indices` have room for `value_capacity` elements each, at least `value_count`. `offsets`
/// has room for `offset_capacity` numbers, at least columns + 1. `count` receives the number of
/// values and indices written. May be called from any thread.
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
        let forms = object!(minibatch)?.forms(index)?;
        // SAFETY: each pointer is NULL or has room for its capacity, as documented above.
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

/// Writes the entries of sparse stream `index` in the form that embedding bags take: sequence by
/// sequence in the order of cntk_reader_minibatch_stream_pack, without gaps, with the entries of a
/// sample in the data's order.
///
/// In terms of the members of cntk_reader_minibatch_stream, `indices` (of type `element`, as for
/// cntk_reader_minibatch_stream_pad_indices) and `weights` (of the stream's element type) have room
/// for `entry_capacity` elements each, at least `value_count`. `offsets` has room for
/// `offset_capacity` numbers, at least samples + 1: the index of each sample's first entry, then
/// the total number of entries. cntk_reader_minibatch_stream_pack gives the offsets of the
/// sequences among the samples. `are_ones` is set to 1 if all weights are 1, otherwise to 0.
///
/// A dense stream is an error. In truncated mode all streams are dense. May be called from any
/// thread.
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
        let forms = object!(minibatch)?.forms(index)?;
        let index_type = index_element(element)?;
        // SAFETY: `offsets` is NULL or has room for `offset_capacity` numbers, as documented above.
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
    // SAFETY: by this function's contract; `bool` has the size and alignment of a byte.
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
