//! Block randomization in rolling windows.
