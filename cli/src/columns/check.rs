//! Guards against damaged files, for which the crates of Arrow may panic or allocate what a length
//! in the file says.

use arrow_ipc::{Block, root_as_footer, root_as_message};
use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// The end of an Arrow file, after the length of its footer.
const MAGIC: &[u8] = b"ARROW1";

/// Precedes the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The most that a compressed buffer can grow, and a size that any may have.
const MOST_GROWTH: u64 = 1 << 16;
const ANY_SIZE: u64 = 1 << 20;

/// The result of a check; the text of an error says what is wrong.
type Checked<T> = Result<T, &'static str>;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a reader's code. A panic becomes an error, and prints nothing.
pub fn guarded<T, E: ToString>(work: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                before(panic);
            }
        }));
    });
    IS_GUARDED.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(false);
    match done {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("lengths and values in it contradict each other".to_owned()),
    }
}

/// Checks that the footer, the messages and their buffers lie within an Arrow file, and that no
/// buffer unpacks to an absurd size.
pub fn check_arrow(file: &File) -> Checked<()> {
    let size = file.metadata().map_err(|_| "its size is unknown")?.len();
    let tail_at = size.checked_sub(10).ok_or("it is too short")?;
    let tail = read(file, tail_at, 10)?;
    if &tail[4..] != MAGIC {
        return Err("its end is missing");
    }
    let length = i32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    let length = u64::try_from(length).map_err(|_| "the length of its footer is wrong")?;
    let begin = tail_at.checked_sub(length).ok_or("the length of its footer is wrong")?;
    let footer = read(file, begin, length)?;
    let footer = root_as_footer(&footer).map_err(|_| "its footer is damaged")?;
    let blocks = [footer.dictionaries(), footer.recordBatches()];
    blocks.into_iter().flatten().flatten().try_for_each(|block| check_block(file, size, block))
}

fn check_block(file: &File, size: u64, block: &Block) -> Checked<()> {
    const WRONG: &str = "a record batch lies outside of it";
    let part = |number: i64| u64::try_from(number).map_err(|_| WRONG);
    let (begin, head, body) =
        (part(block.offset())?, part(block.metaDataLength().into())?, part(block.bodyLength())?);
    let body_at = begin.checked_add(head).ok_or(WRONG)?;
    if body_at.checked_add(body).is_none_or(|end| end > size) || head < 8 {
        return Err(WRONG);
    }
    let head = read(file, begin, head)?;
    let message = if head[..4] == CONTINUATION { &head[8..] } else { &head[4..] };
    let message = root_as_message(message).map_err(|_| "the head of a record batch is damaged")?;
    let rows = message
        .header_as_record_batch()
        .or_else(|| message.header_as_dictionary_batch().and_then(|batch| batch.data()));
    let Some(rows) = rows else { return Ok(()) };
    let is_compressed = rows.compression().is_some();
    for buffer in rows.buffers().into_iter().flatten() {
        const WRONG: &str = "values of a record batch lie outside of it";
        let (offset, length) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length()));
        let (Ok(offset), Ok(length)) = (offset, length) else { return Err(WRONG) };
        if offset.checked_add(length).is_none_or(|end| end > body) {
            return Err(WRONG);
        }
        if is_compressed && length >= 8 {
            let prefix = read(file, body_at + offset, 8)?;
            let unpacked = prefix.try_into().map_or(-1, i64::from_le_bytes);
            // -1: it is not compressed.
            let most = length.saturating_mul(MOST_GROWTH).max(ANY_SIZE);
            if unpacked != -1 && u64::try_from(unpacked).is_ok_and(|unpacked| unpacked > most) {
                return Err("the size of compressed values is wrong");
            }
        }
    }
    Ok(())
}

/// Reads bytes that lie within the file.
fn read(file: &File, at: u64, length: u64) -> Checked<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| "it is too large")?];
    let mut file = file;
    let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut bytes));
    read.map_err(|_| "it cannot be read to its end")?;
    Ok(bytes)
}
