//! What a stream is: its name, storage, element type and sample shape.

/// Type of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ElementType {
    /// 32-bit IEEE float. CNTK's number for it.
    Float = 1,
    /// 64-bit IEEE float. CNTK's number for it.
    Double = 2,
}

impl ElementType {
    /// Bytes of one value.
    pub const fn size(self) -> usize {
        match self {
            ElementType::Float => 4,
            ElementType::Double => 8,
        }
    }
}

/// How the values of a stream are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Storage {
    /// Every value of every sample.
    Dense = 0,
    /// Compressed sparse columns, one column a sample.
    SparseCsc = 1,
}

/// Description of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// Unique name among the streams of a reader.
    pub name: String,
    /// How its values are stored.
    pub storage: Storage,
    /// Type of its values.
    pub element: ElementType,
    /// Shape of one sample, first dimension varying fastest (column-major, CNTK's order).
    pub shape: Vec<usize>,
    /// The lengths of this stream's sequences are the lengths that minibatches are measured in.
    pub defines_mb_size: bool,
}

impl StreamInfo {
    /// Values of one sample.
    pub fn sample_size(&self) -> usize {
        self.shape.iter().product()
    }
}
