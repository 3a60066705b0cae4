//! A ring buffer whose entries can be swapped in place.

use cntk_reader_core::Result;
use cntk_reader_core::memory::room;

/// A ring buffer: entries are added at the back and dropped from the front.
#[derive(Debug, Default)]
pub struct Ring<E> {
    slots: Vec<E>,
    head: usize,
    len: usize,
}

impl<E: Copy + Default> Ring<E> {
    /// Drops all entries but keeps the memory.
    pub fn clear(&mut self) {
        (self.head, self.len) = (0, 0);
    }

    /// Drops entries from the front.
    pub fn drop_front(&mut self, count: usize) {
        debug_assert!(count <= self.len);
        self.len -= count;
        self.head = if self.len == 0 { 0 } else { self.slot(count) };
    }

    /// Reserves slots for `count` more entries. Growth adds some spare slots, because chunks differ
    /// in size.
    pub fn reserve(&mut self, count: usize) -> Result<()> {
        let need = self.len + count;
        if need <= self.slots.len() {
            return Ok(());
        }
        let mut slots = room::with_capacity(need + need / 16, room::ORDER)?;
        slots.extend_from_slice(self.stretch(0, self.len));
        let rest = slots.len();
        slots.extend_from_slice(self.stretch(rest, self.len));
        slots.resize(slots.capacity(), E::default());
        (self.slots, self.head) = (slots, 0);
        Ok(())
    }

    /// Appends `count` entries, each made from its number. The slots must be reserved
    /// ([`Ring::reserve`]).
    pub fn extend(&mut self, count: usize, mut make: impl FnMut(usize) -> E) {
        let tail = self.slot(self.len);
        let straight = count.min(self.slots.len() - tail);
        for (number, slot) in self.slots[tail..tail + straight].iter_mut().enumerate() {
            *slot = make(number);
        }
        for (number, slot) in self.slots[..count - straight].iter_mut().enumerate() {
            *slot = make(straight + number);
        }
        self.len += count;
    }

    /// Returns the entries from `from` up to `to` or the end of the array, whichever comes first.
    pub fn stretch(&self, from: usize, to: usize) -> &[E] {
        let start = self.slot(from);
        let end = self.slots.len().min(start + (to - from));
        &self.slots[start..end]
    }

    /// Returns all slots, and the mapping from entries to slots.
    pub fn slots(&mut self) -> (&mut [E], Circle) {
        let circle = Circle { head: self.head, size: self.slots.len() };
        (&mut self.slots, circle)
    }

    fn slot(&self, index: usize) -> usize {
        Circle { head: self.head, size: self.slots.len() }.slot(index)
    }
}

/// Maps the entries of a [`Ring`] to slots.
#[derive(Debug, Clone, Copy)]
pub struct Circle {
    head: usize,
    size: usize,
}

impl Circle {
    /// Returns the slot of an entry.
    #[inline]
    pub fn slot(self, index: usize) -> usize {
        let slot = self.head + index;
        if slot >= self.size { slot - self.size } else { slot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::randomize::random::Random;
    use std::collections::VecDeque;

    #[test]
    fn growth_leaves_a_sixteenth_to_spare() {
        let mut ring = Ring::<u32>::default();
        for (count, slots) in [(0, 0), (160, 170), (170, 170), (171, 181)] {
            ring.reserve(count).expect("memory");
            assert_eq!(ring.slots.len(), slots, "{count} entries");
        }
    }

    #[test]
    fn empty_ring_starts_over() {
        let mut ring = Ring::default();
        ring.reserve(9).expect("memory");
        ring.extend(7, |number| number);
        ring.drop_front(3);
        assert_eq!((ring.head, ring.len), (3, 4));
        ring.drop_front(4);
        assert_eq!((ring.head, ring.len), (0, 0));
        ring.extend(7, |number| number);
        ring.drop_front(2);
        ring.clear();
        assert_eq!((ring.head, ring.len), (0, 0));
    }

    #[test]
    fn behaves_like_a_queue() {
        let mut random = Random::new(1);
        let (mut ring, mut queue, mut next) = (Ring::default(), VecDeque::new(), 0_u32);
        for _ in 0..3000 {
            let count = random.range(0, 20) as usize;
            ring.reserve(count).expect("memory");
            ring.extend(count, |number| next + number as u32);
            queue.extend(next..next + count as u32);
            next += count as u32;
            let drop = (random.range(0, 25) as usize).min(queue.len());
            ring.drop_front(drop);
            queue.drain(..drop);
            assert_eq!(ring.len, queue.len());
            let mut seen = ring.stretch(0, ring.len).to_vec();
            seen.extend_from_slice(ring.stretch(seen.len(), ring.len));
            assert_eq!(seen, queue.iter().copied().collect::<Vec<_>>());
            let (slots, circle) = ring.slots();
            assert!(queue.iter().enumerate().all(|(index, &entry)| slots[circle.slot(index)] == entry));
        }
    }
}
