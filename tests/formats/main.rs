//! Formats, from files to minibatches.

#![cfg(all(feature = "compression", feature = "images", feature = "speech"))]

#[path = "../common/mod.rs"]
mod common;

mod arrays;
mod builders;
mod changed;
mod confined;
mod extended_example;
mod images;
mod images_channels;
mod images_draws;
mod images_transform;
mod joined_frames;
mod kaldi;
mod speech_guide;
mod text_files;
mod transformed;
mod types;
