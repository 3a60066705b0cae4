//! Replaces the module for Arrow files in builds without the feature.

use crate::commands::convert::ArrowOptions;
use crate::exit::Failure;
use crate::progress::Progress;
use cntk_reader_tools::convert::{Data, Digest};

fn missing<T>() -> Result<T, Failure> {
    let message = "This build of the tool cannot read or write Arrow files. Build it with the feature 'arrow': \
                   cargo install --path cli --features arrow";
    Err(Failure::Usage(message.to_owned()))
}

/// Fails with a message that tells how to build the tool.
pub fn open(_path: &str, _options: &ArrowOptions) -> Result<Data, Failure> {
    missing()
}

/// Fails with a message that tells how to build the tool.
pub fn write(_data: Data, _path: &str, _verify: bool, _progress: &Progress) -> Result<Digest, Failure> {
    missing()
}
