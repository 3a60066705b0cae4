//! Search for the main stream's name in a line, as plain text at any place in the line.
//!
//! A line contains the main stream if `|` and its name occur in it, followed by white space, `|`, a
//! byte that is negative or below 0x20 as CNTK's signed `char`, or the end of the file.

use memchr::memmem;

/// The name of the main stream, prepared for searching.
pub(super) struct Needle {
    text: Vec<u8>,
    finder: memmem::Finder<'static>,
}

impl Needle {
    pub fn new(name: &str) -> Self {
        let text = [b"|", name.as_bytes()].concat();
        Needle { finder: memmem::Finder::new(&text).into_owned(), text }
    }

    /// Returns the start of the first name from `from` on that is followed, within `text`, by a
    /// byte that ends it.
    fn find(&self, text: &[u8], mut from: usize) -> Option<usize> {
        loop {
            let at = from + self.finder.find(text.get(from..)?)?;
            let follower = *text.get(at + self.text.len())?;
            if follower == b'|' || follower as i8 <= b' ' as i8 {
                return Some(at);
            }
            from = at + 1;
        }
    }
}

/// A search through lines in order, block by block.
pub(super) struct Search<'a> {
    needle: &'a Needle,
    /// The last bytes of the current line in earlier blocks, at most as many as the needle has.
    tail: Vec<u8>,
    /// The first name in this block from the place of the last search on, before which lines need
    /// no search. `usize::MAX` if there is none, `None` before the first search.
    next: Option<usize>,
}

impl<'a> Search<'a> {
    pub fn new(needle: &'a Needle) -> Self {
        Search { needle, tail: Vec::new(), next: None }
    }

    /// Begins another block.
    pub fn enter_block(&mut self) {
        self.next = None;
    }

    /// Whether the name is in `block[from..end]`; `end` is the position of a line break, or the end
    /// of the block.
    pub fn finds(&mut self, block: &[u8], from: usize, end: usize) -> bool {
        let next = match self.next {
            Some(next) if next >= from => next,
            _ => self.needle.find(block, from).unwrap_or(usize::MAX),
        };
        self.next = Some(next);
        next.saturating_add(self.needle.text.len()) <= end
    }

    /// Keeps the end of `rest`, the part of a line at the end of a block.
    pub fn leave_line(&mut self, rest: &[u8]) {
        self.tail.clear();
        self.append(rest);
    }

    /// Whether the name is in `block[..end]` or begins in the previous block; `end` as in
    /// [`Search::finds`]. If the line continues after the block, its end is kept.
    pub fn finds_across(&mut self, block: &[u8], end: usize) -> bool {
        let held = self.tail.len();
        let follower = (end + 1).min(block.len());
        self.tail.extend_from_slice(&block[..follower.min(self.needle.text.len())]);
        let found = self.needle.find(&self.tail, 0).is_some() || self.finds(block, 0, end);
        self.tail.truncate(held);
        if end == block.len() {
            self.append(block);
        }
        found
    }

    /// Whether the line ends with the name, at the end of the file.
    pub fn ends_with_name(&self) -> bool {
        self.tail == self.needle.text
    }

    fn append(&mut self, bytes: &[u8]) {
        let keep = self.needle.text.len();
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(keep)..]);
        self.tail.drain(..self.tail.len().saturating_sub(keep));
    }
}
