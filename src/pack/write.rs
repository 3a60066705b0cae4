//! See the packing section.
