//! Writing of label files as text.

use super::ranges::FRAME;
use super::scan::HEADER;
use super::states::StateList;
use cntk_reader_core::message::shown::quoted;
use std::io::{self, Write};

/// A writer of text label files: one line per run of equal classes, with times in units of 100 ns
/// at 10 ms per frame.
///
/// With a state list a line is `start end state`. Without one it is `start end class class`, which
/// can be read without a list: the name in the third column is the number as well.
pub struct MlfWriter<'a, W: Write> {
    out: W,
    states: Option<&'a StateList>,
}

impl<'a, W: Write> MlfWriter<'a, W> {
    /// Writes the header.
    pub fn new(mut out: W, states: Option<&'a StateList>) -> io::Result<Self> {
        out.write_all(HEADER)?;
        out.write_all(b"\n")?;
        Ok(MlfWriter { out, states })
    }

    /// Writes an utterance with one class per frame. Fails without writing anything if it has no
    /// frames, if its key would not be read back, or if a class is not in the state list.
    pub fn utterance(&mut self, key: &[u8], classes: &[u16]) -> io::Result<()> {
        let refuse = |reason: &str| {
            let key = quoted(key);
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("Utterance '{key}' {reason}.")))
        };
        if classes.is_empty() {
            return refuse("has no frames");
        }
        if memchr::memchr2(b'\n', b'\r', key).is_some() {
            return refuse("has a line break in its key");
        }
        let unknown = |&&class: &&u16| {
            self.states
                .is_some_and(|states| states.name(class.into()).is_none_or(|name| name.contains(&b' ')))
        };
        if let Some(class) = classes.iter().find(unknown) {
            return refuse(&format!("has the class {class}, for which the list of states has no name"));
        }
        // The last dot and the text after it are not part of the key.
        self.out.write_all(b"\"")?;
        if key.starts_with(b"*/") {
            self.out.write_all(b"*/")?;
        }
        self.out.write_all(key)?;
        self.out.write_all(b".lab\"\n")?;
        let mut start = 0;
        for run in classes.chunk_by(|one, other| one == other) {
            let end = start + run.len() as u64;
            write!(self.out, "{} {} ", start * FRAME, end * FRAME)?;
            match self.states.and_then(|states| states.name(run[0].into())) {
                Some(name) => self.out.write_all(name)?,
                None => write!(self.out, "{0} {0}", run[0])?,
            }
            self.out.write_all(b"\n")?;
            start = end;
        }
        self.out.write_all(b".\n")
    }

    /// Flushes and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
