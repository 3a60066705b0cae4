//! The differences between operating systems, in one file for each system.
//!
//! All of these files have the same functions, so code elsewhere has no conditions on systems.
//! [`plain`] has the way that works everywhere, and each system takes from it what it does not do
//! better. [`unix`] is shared by Linux and macOS.

#![allow(unsafe_code, reason = "calls of the operating system")]

#[cfg_attr(target_os = "linux", allow(dead_code, reason = "Linux does all of it better"))]
mod plain;
#[cfg(unix)]
mod unix;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod this;
#[cfg(windows)]
#[path = "windows.rs"]
mod this;
#[cfg(all(unix, not(target_os = "linux")))]
#[path = "macos.rs"]
mod this;

#[cfg(test)]
mod tests;

pub use this::*;

/// Size and alignment of a huge page in bytes, on the systems that have them.
pub const HUGE_PAGE: usize = 2 << 20;
