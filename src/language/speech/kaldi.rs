//! The keys of the deserializer for Kaldi archives, which CNTK does not have. Where they mean
//! the same as keys of HTK features, they have the same names.

use super::Common;
use super::htk::{self, SpeechStream};
use crate::language::element;
use crate::language::options::KaldiOptions;
use crate::language::section::Section;
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::limits::LARGEST_SPARSE_DIM;
use cntk_reader_core::stream::Storage;
use cntk_reader_core::{Error, Result};

/// Reads an element of `deserializers`. All keys of the stream are looked up in its section, then
/// outwards.
pub(super) fn read(section: &Section, common: &Common) -> Result<KaldiOptions> {
    let SpeechStream { name, stream, .. } = SpeechStream::first_of(section)?;
    let refuse = |key: &str, message: String, detail: &str| {
        let error = Error::config(InvalidArgument, message).with_detail(detail).in_stream(&name);
        Err(stream.blame(key, error))
    };
    let (place, subject) = (stream.place(), stream.subject());
    let format = stream.text_or("format", "dense")?;
    let storage = if format.eq_ignore_ascii_case("dense") {
        Storage::Dense
    } else if format.eq_ignore_ascii_case("sparse") {
        Storage::SparseCsc
    } else {
        let message = format!("‹format› in {place} is '{format}'.");
        let detail =
            "Expected 'dense' for matrices of features, or 'sparse' for integer vectors of class numbers.";
        return refuse("format", message, detail);
    };
    let ids = element::read_ids(&stream, &name)?;
    if ids.is_some() && storage == Storage::Dense {
        let message = format!("{subject} has ‹ids› but is dense.");
        return refuse("ids", message, "Ids are class numbers: set ‹sparse›, or remove ‹ids›.");
    }
    let context = htk::read_context(&stream)?;
    if storage == Storage::SparseCsc && context != (0, 0) {
        let message = format!("{subject} has a ‹context›, which class numbers cannot have.");
        return refuse(
            "contextWindow",
            message,
            "Remove ‹context›, or set ‹dense› for matrices of features.",
        );
    }
    let is_sparse = storage == Storage::SparseCsc;
    let dim = htk::read_dim(
        &stream,
        &["dim"],
        "A Kaldi stream must specify its dimension: 'dim' is missing.",
        if is_sparse { "the number of classes" } else { "the number of values in a frame" },
    )?;
    htk::check_dim(&stream, dim, context)?;
    let most = if is_sparse { LARGEST_SPARSE_DIM } else { u64::MAX };
    if dim == 0 || dim > most {
        let message = format!("‹dim› in {place} is {dim}.");
        return refuse(
            "dim",
            message,
            "Expected the number of values of a frame, or the number of classes, at most 2147483647.",
        );
    }
    let expand = htk::read_expand(&stream, &name, common.is_primary)?;
    let max_sequence_size = htk::read_max_sequence_size(&stream)?;
    let (file, is_script) = match (stream.exists("scpFile"), stream.exists("arkFile")) {
        (true, false) => (stream.path_of("scpFile")?, true),
        (false, true) => (stream.path_of("arkFile")?, false),
        (has_both, _) => {
            let message = match has_both {
                true => format!("{subject} has 'scpFile' and 'arkFile'."),
                false => format!("{subject} has neither 'scpFile' nor 'arkFile'."),
            };
            return refuse(
                "arkFile",
                message,
                "Give the path of a script as 'scpFile', or the path of an archive as 'arkFile'.",
            );
        }
    };
    let defines_mb_size = stream.get_or("definesMBSize", false)?;
    Ok(KaldiOptions {
        stream: name,
        file,
        is_script,
        dim,
        storage,
        ids,
        context,
        expand,
        max_sequence_size,
        defines_mb_size,
        element: common.element,
        frame_mode: common.frame_mode,
        confinement: cntk_reader_core::file::Confinement::default(),
    })
}
