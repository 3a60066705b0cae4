//! Byte buffers for minibatch data, recycled: writing to memory that was used before costs a tenth of writing to new pages.

use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// A growing, 64-byte aligned run of bytes that returns to its pool when dropped.
#[derive(Debug, Default)]
pub struct Buffer {
    // placeholder layout; see pack's owner
    memory: Vec<u8>,
    home: Weak<Mutex<Vec<Vec<u8>>>>,
}

impl Buffer {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory
    }
}

/// Buffers that wait for their next use.
#[derive(Debug, Default, Clone)]
pub struct BufferPool {
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl BufferPool {
    /// A buffer with `size` bytes of unspecified content.
    pub fn take(&self, size: usize) -> Buffer {
        let mut memory = self.free.lock().pop().unwrap_or_default();
        memory.resize(size, 0);
        Buffer { memory, home: Arc::downgrade(&self.free) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            home.lock().push(std::mem::take(&mut self.memory));
        }
    }
}
