//! A loaded chunk of a bundle: the primary's chunk and its partners. Hands out their views without
//! copying.

use super::join::Join;
use cntk_reader_core::format::fetch::Parts;
use cntk_reader_core::format::loading::Load;
use cntk_reader_core::format::{Ahead, Chunk, ChunkErrors, Listing, Loaded, expand};
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::sequence::ChunkId;
use cntk_reader_core::{Error, Result};
use std::sync::Arc;

/// Maps a bundle's streams and sequences to its members. Shared by the bundle and its chunks.
pub struct BundleMap {
    pub join: Join,
    /// For each stream of the bundle, its member and its number in that member.
    pub routes: Vec<(usize, usize)>,
    /// For each member, the number of its first stream in the bundle.
    pub firsts: Vec<usize>,
    /// For each stream, whether a sequence's single sample is repeated to match the first stream's
    /// length
    /// ([`SequenceFacts::is_expanded`](cntk_reader_core::format::SequenceFacts::is_expanded)).
    pub expanded: Vec<bool>,
}

/// A loaded chunk of a bundle.
pub struct BundleChunk {
    map: Arc<BundleMap>,
    id: ChunkId,
    primary: Arc<dyn Chunk>,
    /// For each secondary member, its chunks that hold the partners, in the order of the join.
    partners: Vec<Vec<Arc<dyn Chunk>>>,
    /// The loads of the secondary chunks, kept alive so that other bundled chunks can share them.
    _shared: Arc<[Load]>,
    /// For each secondary chunk, in the order of [`BundleChunk::parts`], whether this chunk counted
    /// its errors.
    counted: Mutex<Vec<bool>>,
}

impl BundleChunk {
    /// Creates a bundled chunk. `chunks` holds the primary's chunk, then the secondaries' chunks in
    /// order; `shared` holds the loads of the latter.
    pub fn new(map: &Arc<BundleMap>, id: ChunkId, chunks: &[Arc<dyn Chunk>], shared: &Arc<[Load]>) -> Self {
        let mut rest = chunks[1..].iter().cloned();
        let joined = &map.join.chunks[id as usize];
        let partners = joined.partners.iter().map(|one| rest.by_ref().take(one.chunks.len()).collect());
        BundleChunk {
            map: Arc::clone(map),
            id,
            primary: Arc::clone(&chunks[0]),
            partners: partners.collect(),
            _shared: Arc::clone(shared),
            counted: Mutex::default(),
        }
    }

    /// Iterates over the secondary chunks in order.
    fn parts(&self) -> impl Iterator<Item = &dyn Chunk> {
        self.partners.iter().flatten().map(|part| &**part)
    }
}

impl Chunk for BundleChunk {
    #[inline]
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        let joined = &self.map.join.chunks[self.id as usize];
        match self.map.routes[stream] {
            (0, stream) => self.primary.sequence(stream, joined.primary_index(index)),
            (member, inner) => {
                let (part, place) = joined.partners[member - 1].places.get(index);
                let loaded = self.partners[member - 1][part].sequence(inner, place);
                if self.map.expanded[stream] { expand(loaded, self.sequence(0, index)) } else { loaded }
            }
        }
    }

    fn sequences<'a>(&'a self, index: u32, loaded: &mut [Loaded<'a>]) {
        let joined = &self.map.join.chunks[self.id as usize];
        let mut rest = &mut *loaded;
        for (member, first) in self.map.firsts.iter().enumerate() {
            let end = self.map.firsts.get(member + 1).copied().unwrap_or(self.map.routes.len());
            let own = rest.split_off_mut(..rest.len().min(end - first)).unwrap_or_default();
            let Some(member) = member.checked_sub(1) else {
                self.primary.sequences(joined.primary_index(index), own);
                continue;
            };
            let (part, place) = joined.partners[member].places.get(index);
            self.partners[member][part].sequences(place, own);
        }
        let Some(&first) = loaded.first() else { return };
        for (loaded, _) in loaded.iter_mut().zip(&self.map.expanded).filter(|(_, is_expanded)| **is_expanded)
        {
            *loaded = expand(*loaded, first);
        }
    }

    fn failure(&self, stream: usize, index: u32) -> Option<Error> {
        let joined = &self.map.join.chunks[self.id as usize];
        match self.map.routes[stream] {
            (0, stream) => self.primary.failure(stream, joined.primary_index(index)),
            (member, inner) => {
                let (part, place) = joined.partners[member - 1].places.get(index);
                self.partners[member - 1][part].failure(inner, place)
            }
        }
    }

    fn is_expanded(&self, stream: usize) -> bool {
        self.map.expanded[stream]
    }

    /// Does nothing: a hint would first have to find the sequence's partners, which is most of the
    /// work.
    fn prefetch(&self, _index: u32, _ahead: Ahead) {}

    fn fetch(&self, index: u32, first: usize, parts: &mut Parts) -> Result<()> {
        let joined = &self.map.join.chunks[self.id as usize];
        self.primary.fetch(joined.primary_index(index), first, parts)?;
        let members = joined.partners.iter().zip(&self.partners).zip(&self.map.firsts[1..]);
        for ((partner, chunks), own_first) in members {
            let (part, index) = partner.places.get(index);
            chunks[part].fetch(index, first + own_first, parts)?;
        }
        Ok(())
    }

    fn warn(&self) {
        self.primary.warn();
        self.parts().for_each(|part| part.warn());
    }

    fn errors(&self) -> &dyn ChunkErrors {
        self
    }

    /// Returns `None`: the members' sequences are known before loading.
    fn listing(&self) -> Option<Listing<'_>> {
        None
    }
}

impl ChunkErrors for BundleChunk {
    /// Counts errors. Those of a secondary chunk count once, with the first bundled chunk that uses
    /// it.
    fn commit(&self) -> Result<()> {
        self.primary.errors().commit()?;
        let mut counted = self.counted.lock();
        for (number, part) in self.parts().enumerate() {
            if part.errors().has_uncounted() {
                if counted.len() <= number {
                    counted.resize(number + 1, false);
                }
                counted[number] = true;
            }
            part.errors().commit()?;
        }
        Ok(())
    }

    fn has_uncounted(&self) -> bool {
        self.primary.errors().has_uncounted() || self.parts().any(|part| part.errors().has_uncounted())
    }

    fn has_counted(&self) -> bool {
        self.primary.errors().has_counted() || self.parts().any(|part| part.errors().has_counted())
    }

    fn retract(&self) {
        self.primary.errors().retract();
        let counted = std::mem::take(&mut *self.counted.lock());
        for (part, _) in self.parts().zip(counted).filter(|(_, is_mine)| *is_mine) {
            part.errors().retract();
        }
    }

    fn waive(&self) {
        self.primary.errors().waive();
        self.parts().for_each(|part| part.errors().waive());
    }
}
