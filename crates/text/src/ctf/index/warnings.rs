//! Warnings about input that is legal but probably a mistake, given once per file.

use super::parts::IndexParts;
use super::repeats::Repeats;
use super::source::SourceFile;
use super::start::Start;
use super::{IndexOptions, SequenceSpan};
use cntk_reader_core::Result;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::handle::FileHandle;
use cntk_reader_core::runtime::log::{Level, Logger};

/// Bytes at the start of a file that are searched for a line with an id.
const SEARCHED: u64 = 64 << 10;

/// Largest offset at which a warning gives a line; beyond it, the offset must suffice.
const COUNTED: u64 = 64 << 20;

/// Warns if the first line has no id and a line soon after it has one: all ids are ignored then.
pub(super) fn of_ignored_ids(
    source: &SourceFile<'_>,
    options: &IndexOptions,
    start: Start,
    log: &Logger,
) -> Result<()> {
    if !log.shows(Level::Warning) {
        return Ok(());
    }
    if let Some(text) = about_ignored_ids(source, options, start)? {
        log.write(Level::Warning, &text);
    }
    Ok(())
}

/// Warns if several sequences have the same key.
pub(super) fn of_repeats(files: &[(&FileHandle, &IndexParts)], corpus: &Corpus, log: &Logger) {
    if !log.shows(Level::Warning) {
        return;
    }
    if let Some(text) = about_repeats(files, corpus) {
        log.write(Level::Warning, &text);
    }
}

fn about_ignored_ids(
    source: &SourceFile<'_>,
    options: &IndexOptions,
    start: Start,
) -> Result<Option<String>> {
    if !start.by_line || options.skip_sequence_ids {
        return Ok(None);
    }
    let mut block = vec![0; SEARCHED.min(source.size() - start.content) as usize];
    source.read(&mut block, start.content)?;
    let with_id = block.split(|&byte| byte == b'\n').position(|line| {
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // Digits up to the end of the file are no id, and the text after the block is unknown.
        0 < digits && digits < line.len()
    });
    Ok(with_id.map(|lines| {
        let (path, first) = (source.file.path(), start.line + 1);
        let second = first + lines as u64;
        format!(
            "Line {second} of '{path}' begins with a sequence id, but line {first}, which is the first, has none. The first \
             line decides: all ids are ignored, and every line is a sequence. If sequences of several lines are meant, \
             begin the file with a line that has an id; if not, set ‹skip_sequence_ids = true›, which ends this warning."
        )
    }))
}

fn about_repeats(files: &[(&FileHandle, &IndexParts)], corpus: &Corpus) -> Option<String> {
    let tables: Vec<_> =
        files.iter().flat_map(|(file, parts)| parts.iter().map(move |part| (file, &part.table))).collect();
    let Repeats { first, again, count } = Repeats::find(tables.iter().map(|(_, table)| *table))?;
    let place = |(table, span): (usize, SequenceSpan)| {
        let offset = span.offset;
        let line = (offset <= COUNTED).then(|| tables[table].0.get().ok()?.line_at(offset)).flatten();
        line.map_or_else(|| format!("offset {offset}"), |line| format!("line {line} (offset {offset})"))
    };
    let others = match count {
        1 => String::new(),
        _ => format!(" In all, {count} sequences have the id of an earlier one."),
    };
    let (path, other) = (tables[first.0].0.path(), tables[again.0].0.path());
    let (between, of_other) = match path == other {
        true => (", with other lines between", String::new()),
        false => ("", format!(" of '{other}'")),
    };
    Some(format!(
        "Sequence {} of '{path}' begins at {} and again at {}{of_other}{between}: these are two sequences with one id.\
         {others} The lines of a sequence must follow each other, and no other sequence may have its id.",
        corpus.text_of(first.1.key),
        place(first),
        place(again)
    ))
}

#[cfg(test)]
mod tests {
    use super::super::Index;
    use super::super::tests::{file_of, options};
    use super::*;
    use cntk_reader_core::runtime::pool::Pool;
    use std::sync::Arc;

    fn ignored_ids(text: &[u8], skip_sequence_ids: bool) -> Option<String> {
        let file = file_of(text);
        let source = SourceFile::new(&file).expect("a source");
        let options = IndexOptions { skip_sequence_ids, ..options(None) };
        let start = Start::read(&source, &options, &Corpus::Numeric).expect("a start");
        about_ignored_ids(&source, &options, start).expect("it is read")
    }

    #[test]
    fn ignored_ids_cause_a_warning() {
        let text = ignored_ids(b"\n|x 1\n|x 2\n7 |x 3\n", false).expect("a warning");
        assert!(
            text.starts_with("Line 4 of 'f' begins with a sequence id, but line 2, which is the first,"),
            "{text}"
        );
        assert!(ignored_ids(b"|# header\n1 |x 1\n", false).is_some());
        for silent in [&b"|x 1\n|x 2\n"[..], b"1 |x 1\n|x 2\n2 |x 3\n", b"|x 1\n7", b"|x 1\n 7 |x 2\n"] {
            assert_eq!(ignored_ids(silent, false), None);
        }
        assert_eq!(ignored_ids(b"|x 1\n7 |x 3\n", true), None);
    }

    /// Returns the warning about a file, after checking that indexing at once and in steps gives
    /// the same.
    fn repeats(text: &[u8], corpus: fn() -> Corpus) -> Option<String> {
        let file = file_of(text);
        let options = IndexOptions { chunk_size: 20, ..options(None) };
        let corpus = Arc::new(corpus());
        let index = Index::open(&file, &options, &corpus).expect("an index");
        let handle = FileHandle::Open(file.clone());
        let at_once = about_repeats(&[(&handle, &index.parts)], &corpus);
        let pool = Pool::shared().expect("threads");
        let open = || Index::open_in_steps(&file, &options, &corpus, &pool, 16);
        let index = pool.install(open).expect("an index");
        assert!(!index.chunks().is_empty());
        assert_eq!(about_repeats(&[(&handle, &index.parts)], &corpus), at_once);
        at_once
    }

    #[test]
    fn repeated_ids_cause_a_warning_with_both_places() {
        let text =
            repeats(b"100 |x 1\n100 |x 2\n200 |x 3\n100 |x 4\n", || Corpus::Numeric).expect("a warning");
        assert!(
            text.contains("Sequence 100 of 'f' begins at line 1 (offset 0) and again at line 4 (offset 27),"),
            "{text}"
        );
        assert!(!text.contains("In all"), "{text}");
        let text = repeats(b"b |x 1\na |x 1\nc |x 2\na |x 3\nb |x 4\na |x 5\n", Corpus::symbolic)
            .expect("a warning");
        assert!(text.contains("Sequence a of 'f' begins at line 2 (offset 7) and again at line 4"), "{text}");
        assert!(text.contains("In all, 3 sequences have the id of an earlier one."), "{text}");
        for silent in [&b"1 |x 1\n2 |x 1\n3 |x 1\n4 |x 1\n"[..], b"4 |x 1\n2 |x 1\n2 |x 3\n1 |x 1\n"] {
            assert_eq!(repeats(silent, || Corpus::Numeric), None);
        }
    }
}
