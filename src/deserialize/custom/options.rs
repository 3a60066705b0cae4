//! Options of deserializers that this library does not have.

use crate::config::Section;

/// Options of a deserializer that this library does not have.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignOptions {
    /// The section's `type`.
    pub name: String,
    /// Its section, with what the reader puts into it.
    pub section: Section,
    /// Its sequences are known beforehand (`composable`).
    pub composable: bool,
}

/// Options of a user's deserializer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOptions {
    /// The name that it was registered by, the section's `type`.
    pub name: String,
    /// Its sequences are known beforehand, and the section does not forbid to use that (`composable = false`).
    pub composable: bool,
}
