//! Typed options of a reader, a deserializer, a stream or a transform.

use super::call::{call, given, guard_silently};
use super::error::cntk_reader_error;
use super::handle::{self, Handle, Header, Kind, Place, argument, object};
use super::source::{self, to_path};
use super::status::cntk_reader_status;
use super::text;
use ::cntk_reader::language::values::{Value, Values, check};
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::{Error, Result};
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::path::PathBuf;

/// The options of a reader, deserializer, stream or transform, with typed values. They nest: a
/// reader's options contain those of its deserializers, which contain those of their streams, and
/// so on. The names are the keys of CNTK's configuration language. Values need no quotes and are
/// taken literally, without comments, variables or defaults, so paths and stream names may contain
/// any characters. Set as `options` of a cntk_reader_source.
///
/// For example, a reader of the stream `features` of a text file takes four objects: the stream's
/// options, dim = 784 and format = "dense"; `input`, with the stream as its section `features`; the
/// deserializer's options, type = "CNTKTextFormatDeserializer", module = "CNTKTextFormatReader",
/// file and input; and the reader's options, with the deserializer in `deserializers`.
///
/// Threads: may be shared while no thread changes it.
pub struct cntk_reader_options(Header);

// SAFETY: no other type has this kind.
unsafe impl Handle for cntk_reader_options {
    const KIND: Kind = Kind::Options;
    type Object = Options;

    fn header(&self) -> &Header {
        &self.0
    }
}

/// The object of cntk_reader_options.
pub(crate) struct Options(pub(super) Values, pub(super) FrontEnd);

/// Creates empty options, which the caller owns. `front_end` is a cntk_reader_front_end, whose
/// names for options appear in messages. Programs in C pass CNTK_READER_FRONT_END_CONFIGURATION.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_options_create(
    front_end: u32,
    options: Option<&mut MaybeUninit<*mut cntk_reader_options>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let options = given(options, "options")?;
        let made = Options(Values::default(), source::front_end(front_end)?);
        options.write(handle::hand_out(Box::new(made)));
        Ok(())
    })
}

/// Copies options. The caller owns the copy.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_options_copy(
    options: Option<&cntk_reader_options>,
    copy: Option<&mut MaybeUninit<*mut cntk_reader_options>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (options, copy) = (object!(options)?, given(copy, "copy")?);
        copy.write(handle::hand_out(Box::new(Options(options.0.clone(), options.1))));
        Ok(())
    })
}

/// Frees options. NULL is allowed. For released options or another handle it does nothing but log
/// the mistake. Readers that were opened from them, and options that contain a copy of them, are
/// not affected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_free(options: *mut cntk_reader_options) {
    // SAFETY: NULL or a handle, which the caller gives up.
    guard_silently(|| drop(unsafe { handle::release(options, argument!("options")) }));
}

/// Applies a value to a key.
type Setter<V> = fn(&mut Values, &str, V, FrontEnd) -> Result<()>;

/// Checks the key and applies a setter. `value` gets the key for its messages.
///
/// # Safety
/// `options` is NULL, which is refused, or a handle that nothing else uses; `key` is NULL, which is
/// refused, or has `key_length` readable bytes.
unsafe fn change<V, F: FnOnce(&str) -> Result<V>>(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
    setter: Setter<V>,
    value: F,
) -> cntk_reader_status {
    call(error, || {
        // The closure is an item of the function that was called.
        let place = Place::Argument { path: std::any::type_name::<F>(), name: "options" };
        // SAFETY: this function's contract.
        let Options(values, front_end) = unsafe { handle::object_mut(options, place) }?;
        // SAFETY: this function's contract.
        let key = unsafe { text::utf8(key, key_length, "key") }?;
        if key.is_empty() || key.contains('\0') {
            let message = format!("The name of an option or a stream is {key:?}.");
            let detail = "A name is not empty and has no NUL character.";
            return Err(Error::config(InvalidArgument, message).with_detail(detail));
        }
        setter(values, key, value(key)?, *front_end)
    })
}

/// Sets an option after checking that the value is allowed.
fn set(values: &mut Values, key: &str, value: Value, front_end: FrontEnd) -> Result<()> {
    check(values, key, &value, front_end)?;
    values.set(key, value);
    Ok(())
}

/// Appends to a list, creating it if necessary.
fn add(values: &mut Values, key: &str, added: Value, front_end: FrontEnd) -> Result<()> {
    check(values, key, &added, front_end)?;
    values.add(key, added)
}

/// Adds a section under its name, unchecked: a stream may have the name of an option.
fn name(values: &mut Values, key: &str, section: Values, _: FrontEnd) -> Result<()> {
    values.add_section(key, section)
}

/// Converts a caller's string to a value.
///
/// # Safety
/// `text` is NULL, which is refused, or has `length` readable bytes.
unsafe fn text_value(text: *const c_char, length: usize) -> Result<Value> {
    // SAFETY: this function's contract.
    Ok(Value::Text(unsafe { text::utf8(text, length, "text") }?.to_owned()))
}

/// Converts a caller's path.
///
/// # Safety
/// `path` is NULL, which is refused, or has `length` readable bytes.
unsafe fn path_of(path: *const c_char, length: usize) -> Result<PathBuf> {
    // SAFETY: this function's contract.
    Ok(to_path(unsafe { text::bytes(path, length, "path") }?))
}

/// Copies the options of a section.
fn section_of(section: Result<&Options>) -> Result<Values> {
    Ok(section?.0.clone())
}

/// Sets an option to true (1) or false (0). Like all setters it replaces the option's previous
/// value. `key` has `key_length` bytes, or CNTK_READER_NUL_TERMINATED. It is UTF-8 and
/// case-insensitive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_set_flag(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    value: u32,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    // SAFETY: `options` and `key` are the caller's, as documented above.
    unsafe {
        change(options, key, key_length, error, set, |key| match value {
            0 | 1 => Ok((value == 1).into()),
            _ => Err(Error::argument(format!("The value of '{key}' is {value}. Expected 1 or 0."))),
        })
    }
}

/// Sets an option to a signed integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_set_integer(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    value: i64,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    // SAFETY: `options` and `key` are the caller's, as cntk_reader_options_set_flag documents them.
    unsafe { change(options, key, key_length, error, set, |_| Ok(value.into())) }
}

/// Sets an option to an unsigned integer: a size, a count, a seed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_set_size(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    value: u64,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    // SAFETY: `options` and `key` are the caller's, as cntk_reader_options_set_flag documents them.
    unsafe { change(options, key, key_length, error, set, |_| Ok(value.into())) }
}

/// Sets an option to a floating-point number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_set_real(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    value: f64,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    // SAFETY: `options` and `key` are the caller's, as cntk_reader_options_set_flag documents them.
    unsafe { change(options, key, key_length, error, set, |_| Ok(value.into())) }
}

/// Sets an option to a UTF-8 string: a keyword such as "double", or a name. `text` has
/// `text_length` bytes, or CNTK_READER_NUL_TERMINATED. Several numbers are written as one string,
/// such as "5:5".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_set_text(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    text: *const c_char,
    text_length: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    // SAFETY: `options` is NULL or a handle; `key` and `text` are NULL, which is refused, or have
    // the bytes that their lengths state.
    unsafe { change(options, key, key_length, error, set, |_| text_value(text, text_length)) }
}

/// Appends a string to an option that is a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_add_text(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    text: *const c_char,
    text_length: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    // SAFETY: `options` is NULL or a handle; `key` and `text` are NULL, which is refused, or have
    // the bytes that their lengths state.
    unsafe {
        change(options, key, key_length, error, add, |_| {
            Ok(Value::List(vec![text_value(text, text_length)?]))
        })
    }
}

/// Sets an option to the path of a file or folder, in the operating system's encoding. `path` has
/// `path_length` bytes, or CNTK_READER_NUL_TERMINATED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_set_path(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    path: *const c_char,
    path_length: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    // SAFETY: `options` is NULL or a handle; `key` and `path` are NULL, which is refused, or have
    // the bytes that their lengths state.
    unsafe {
        change(options, key, key_length, error, set, |_| Ok(path_of(path, path_length)?.as_path().into()))
    }
}

/// Appends a path to an option that is a list of paths: script files, label files, folders.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_add_path(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    path: *const c_char,
    path_length: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    // SAFETY: `options` is NULL or a handle; `key` and `path` are NULL, which is refused, or have
    // the bytes that their lengths state.
    unsafe {
        change(options, key, key_length, error, add, |_| {
            Ok(Value::List(vec![path_of(path, path_length)?.as_path().into()]))
        })
    }
}

/// Appends to the files (`file`) of a text or binary deserializer: a path, or a pattern of paths
/// such as "train-*.ctf". A path that exists is never a pattern. The data follow those of the
/// previous files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_add_file(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    path: *const c_char,
    path_length: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    // SAFETY: `options` is NULL or a handle; `key` and `path` are NULL, which is refused, or have
    // the bytes that their lengths state.
    unsafe {
        change(options, key, key_length, error, add, |_| Ok(Value::Files(vec![path_of(path, path_length)?])))
    }
}

/// Sets an option to a section, a copy of other options: `input`, or within `input` the options of
/// a stream by its name. An existing section is not replaced: stream names that differ only in case
/// would otherwise silently become one stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_set_section(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    section: Option<&cntk_reader_options>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    // SAFETY: `options` and `key` are the caller's, as cntk_reader_options_set_flag documents them.
    unsafe { change(options, key, key_length, error, name, |_| section_of(object!(section))) }
}

/// Appends a section, a copy of other options, to a list: `deserializers`, `transforms`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_add_section(
    options: *mut cntk_reader_options,
    key: *const c_char,
    key_length: usize,
    section: Option<&cntk_reader_options>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    // SAFETY: `options` and `key` are the caller's, as cntk_reader_options_set_flag documents them.
    unsafe {
        change(options, key, key_length, error, add, |_| {
            Ok(Value::List(vec![section_of(object!(section))?.into()]))
        })
    }
}

/// Writes options in CNTK's configuration language: as the lines of a configuration, or as a
/// section if `in_brackets` is 1. The text is NUL-terminated if it fits into `capacity` bytes;
/// `length` is set to its full length. `text` may be NULL if `capacity` is 0. A name or string that
/// the language cannot express is an error; every path can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_options_write(
    options: Option<&cntk_reader_options>,
    in_brackets: u32,
    text: *mut c_char,
    capacity: usize,
    length: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (Options(values, _), length) = (object!(options)?, given(length, "length")?);
        let written = match in_brackets {
            0 => values.to_configuration()?,
            1 => values.to_section()?,
            _ => return Err(Error::argument(format!("'in_brackets' is {in_brackets}. Expected 1 or 0."))),
        };
        // SAFETY: `text` is NULL, which `copy` refuses unless `capacity` is 0, or has `capacity`
        // bytes.
        length.write(unsafe { text::copy(&written, text, capacity) }?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::Owned;
    use crate::status::cntk_reader_status::{
        CNTK_READER_STATUS_CONFIG, CNTK_READER_STATUS_INVALID_ARGUMENT, CNTK_READER_STATUS_OK,
    };
    use crate::text::NUL_TERMINATED;
    use std::ffi::CStr;
    use std::ptr::{null, null_mut};

    const END: usize = NUL_TERMINATED;

    fn options_of(values: Values, front_end: FrontEnd) -> Owned<cntk_reader_options> {
        Owned(handle::hand_out(Box::new(Options(values, front_end))))
    }

    fn text_of(options: *mut cntk_reader_options) -> String {
        let (mut length, mut buffer) = (MaybeUninit::new(0), vec![0u8; 200]);
        let place = buffer.as_mut_ptr().cast();
        // SAFETY: options that are not freed yet, and a buffer of 200 bytes.
        let status =
            unsafe { cntk_reader_options_write(options.as_ref(), 0, place, 200, Some(&mut length), None) };
        assert_eq!(status, CNTK_READER_STATUS_OK);
        CStr::from_bytes_until_nul(&buffer).expect("a NUL").to_str().expect("UTF-8").to_owned()
    }

    /// Covers every kind of value, as CNTK's language writes it.
    #[test]
    fn values_of_each_kind() {
        let options = options_of(Values::default(), FrontEnd::Configuration);
        let options = options.0;
        let stream = options_of(Values::default(), FrontEnd::Configuration);
        let stream = stream.0;
        let ok = CNTK_READER_STATUS_OK;
        // SAFETY: all texts are literals with a NUL.
        unsafe {
            let key = |name: &'static CStr| name.as_ptr();
            let value = key;
            assert_eq!(cntk_reader_options_set_flag(options, key(c"a"), 1, 1, None), ok);
            assert_eq!(cntk_reader_options_set_flag(options, key(c"A"), END, 0, None), ok);
            assert_eq!(cntk_reader_options_set_integer(options, key(c"b"), END, -1, None), ok);
            assert_eq!(cntk_reader_options_set_size(options, key(c"c"), END, u64::MAX, None), ok);
            assert_eq!(cntk_reader_options_set_real(options, key(c"d"), END, 0.25, None), ok);
            let text = value(c"e f");
            assert_eq!(cntk_reader_options_set_text(options, key(c"e"), END, text, END, None), ok);
            assert_eq!(cntk_reader_options_add_text(options, key(c"g"), END, text, 1, None), ok);
            let path = value(c"/x \"y\" \xff");
            assert_eq!(cntk_reader_options_set_path(options, key(c"p"), END, path, END, None), ok);
            for _ in 0..2 {
                let files = options;
                assert_eq!(
                    cntk_reader_options_add_file(files, key(c"q"), END, value(c"*.ctf"), END, None),
                    ok
                );
            }
            assert_eq!(cntk_reader_options_add_path(options, key(c"r"), END, value(c"*"), END, None), ok);
            assert_eq!(cntk_reader_options_set_size(stream, key(c"dim"), END, 3, None), ok);
            let section = stream.as_ref();
            assert_eq!(cntk_reader_options_set_section(options, key(c"s"), END, section, None), ok);
            assert_eq!(cntk_reader_options_add_section(options, key(c"t"), END, section, None), ok);
            // A stream may have the name of an option.
            for name in [c"dim", c"Seed", c"file"] {
                let input = options_of(Values::default(), FrontEnd::Configuration);
                let input = input.0;
                let status = cntk_reader_options_set_section(input, key(name), END, section, None);
                assert_eq!(status, ok);
            }
        }
        let expected = "a = false\nb = -1\nc = 18446744073709551615\nd = 0.25\ne = \"e f\"\ng = (\"e\")\n\
                        p = \"file:/x%20%22y%22%20~\"\nq = (\"*.ctf\":\"*.ctf\")\nr = (\"file:%2A\")\n\
                        s = [ dim = 3 ]\nt = ([ dim = 3 ])\n";
        // Windows knows no such byte in a path.
        let odd = if cfg!(windows) { "%EF%BF%BD" } else { "%FF" };
        let expected = &*expected.replace('~', odd);
        assert_eq!(text_of(options), expected);
        let mut copy = MaybeUninit::uninit();
        // SAFETY: options that are not freed yet.
        assert_eq!(cntk_reader_options_copy(unsafe { options.as_ref() }, Some(&mut copy), None), ok);
        // SAFETY: the call above has written it.
        let copy = Owned(unsafe { copy.assume_init() });
        let copy = copy.0;
        // SAFETY: a literal with a NUL.
        unsafe { cntk_reader_options_set_flag(copy, c"a".as_ptr(), END, 1, None) };
        assert_eq!(
            (text_of(options), text_of(copy)),
            (expected.into(), expected.replacen("false", "true", 1))
        );
        // SAFETY: NULL.
        unsafe { cntk_reader_options_free(null_mut()) };
    }

    #[test]
    fn invalid_options_are_refused() {
        let options = options_of(Values::default(), FrontEnd::Configuration);
        let options = options.0;
        let refused = CNTK_READER_STATUS_INVALID_ARGUMENT;
        let section = options_of(Values::default(), FrontEnd::Configuration);
        let section = section.0;
        // SAFETY: all texts are NULL, or literals with a NUL.
        unsafe {
            let a = c"a".as_ptr();
            assert_eq!(cntk_reader_options_set_flag(null_mut(), a, END, 1, None), refused);
            assert_eq!(cntk_reader_options_set_flag(options, null(), END, 1, None), refused);
            assert_eq!(
                cntk_reader_options_set_flag(options, c"".as_ptr(), END, 1, None),
                CNTK_READER_STATUS_CONFIG
            );
            assert_eq!(
                cntk_reader_options_set_flag(options, b"a\0b".as_ptr().cast(), 3, 1, None),
                CNTK_READER_STATUS_CONFIG
            );
            assert_eq!(cntk_reader_options_set_flag(options, a, END, 2, None), refused);
            assert_eq!(cntk_reader_options_set_text(options, a, END, null(), END, None), refused);
            assert_eq!(cntk_reader_options_set_text(options, a, END, c"\xff".as_ptr(), END, None), refused);
            assert_eq!(cntk_reader_options_set_path(options, a, END, null(), END, None), refused);
            assert_eq!(cntk_reader_options_set_section(options, a, END, None, None), refused);
            cntk_reader_options_set_flag(options, a, END, 1, None);
            assert_eq!(cntk_reader_options_add_text(options, a, END, a, END, None), refused);
            assert_eq!(cntk_reader_options_add_file(options, a, END, a, END, None), refused);
            let capital = c"A".as_ptr();
            assert_eq!(
                cntk_reader_options_set_section(options, capital, END, section.as_ref(), None),
                CNTK_READER_STATUS_CONFIG
            );
            let mut length = MaybeUninit::new(0);
            let none = null_mut();
            assert_eq!(
                cntk_reader_options_write(options.as_ref(), 2, none, 0, Some(&mut length), None),
                refused
            );
            // Values are checked when they are set, in the words of the front end.
            let max_errors = c"maxErrors".as_ptr();
            let (reader, deserializer) = (Values::default(), Values::of_type("CNTKTextFormatDeserializer"));
            for (values, front_end, word, hint) in [
                (&reader, FrontEnd::Configuration, "maxErrors", "; a negative number wraps around"),
                (&reader, FrontEnd::Cpp, "max_errors", "; a negative number wraps around"),
                (&deserializer, FrontEnd::Cpp, "MaxErrors", "; a negative number wraps around"),
                (&deserializer, FrontEnd::Python, "max_errors", ""),
            ] {
                let options = options_of(values.clone(), front_end);
                let options = options.0;
                let mut error = MaybeUninit::uninit();
                let place = Some(&mut error);
                let status = cntk_reader_options_set_size(options, max_errors, END, 1 << 31, place);
                assert_eq!(status, CNTK_READER_STATUS_CONFIG);
                let error = Owned(error.assume_init());
                let text = CStr::from_ptr(crate::error::cntk_reader_error_get_text(error.0.as_ref()));
                let expected = format!(
                    "The value of '{word}' is '2147483648'. Expected a whole number from 0 to 2147483647{hint}."
                );
                assert!(text.to_str().expect("UTF-8").contains(&expected), "{text:?}");
                let path = cntk_reader_options_set_path(options, max_errors, END, a, END, None);
                assert_eq!(path, CNTK_READER_STATUS_CONFIG);
            }
            cntk_reader_options_set_text(options, a, END, c"\"".as_ptr(), END, None);
            let unwritable = cntk_reader_options_write(options.as_ref(), 0, none, 0, Some(&mut length), None);
            assert_eq!(unwritable, CNTK_READER_STATUS_CONFIG);
        }
    }

    #[test]
    fn one_count_or_two() {
        let refusal = |value: &CStr, is_added: bool| {
            let options = options_of(Values::default(), FrontEnd::Cpp);
            let options = options.0;
            let (mut error, key) = (MaybeUninit::uninit(), c"contextWindow".as_ptr());
            let place = Some(&mut error);
            // SAFETY: the strings end with a NUL; the error was written if the status says so, and
            // this test owns it.
            unsafe {
                let status = match is_added {
                    true => cntk_reader_options_add_text(options, key, END, value.as_ptr(), END, place),
                    false => cntk_reader_options_set_text(options, key, END, value.as_ptr(), END, place),
                };
                (status != CNTK_READER_STATUS_OK).then(|| {
                    let error = Owned(error.assume_init());
                    let text = CStr::from_ptr(crate::error::cntk_reader_error_get_text(error.0.as_ref()));
                    text.to_str().expect("UTF-8").to_owned()
                })
            }
        };
        for value in [c"0", c"5", c"2147483647:0"] {
            assert_eq!(refusal(value, false), None);
        }
        let expected = "Expected a whole number from 0 to 2147483647, or two";
        for (value, hint) in [
            (c"-1:1", ""),
            (c"1:2:3", ""),
            (c"1.5", ""),
            (c"", ""),
            (c"1:2147483648", "; a negative number wraps around"),
        ] {
            let shown = value.to_str().expect("UTF-8");
            let wanted = format!("The value of 'ContextWindow' is '{shown}'. {expected}{hint}.");
            let text = refusal(value, false).expect("an error");
            assert!(text.contains(&wanted), "{text}");
        }
        let text = refusal(c"-1", true).expect("an error");
        assert!(text.contains(&format!("The value of 'ContextWindow' is '-1'. {expected}.")), "{text}");
    }
}
