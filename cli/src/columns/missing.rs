//! Replaces the modules for Arrow and Parquet files in builds without the feature.

use super::{ColumnOptions, Container, Outline};
use crate::exit::Failure;
use crate::progress::Progress;
use cntk_reader_tools::convert::{Data, Digest};

fn missing<T>(container: Container) -> Result<T, Failure> {
    Err(Failure::Usage(format!(
        "This build of the tool cannot read or write {} files. Build it with the feature 'arrow': \
         cargo install --path cli --features arrow",
        container.name()
    )))
}

/// Fails with a message that tells how to build the tool.
pub fn open(_path: &str, container: Container, _options: &ColumnOptions) -> Result<Data, Failure> {
    missing(container)
}

/// Fails with a message that tells how to build the tool.
pub fn outline(_path: &str, container: Container, _options: &ColumnOptions) -> Result<Outline, Failure> {
    missing(container)
}

/// Fails with a message that tells how to build the tool.
pub fn write(
    _data: Data,
    container: Container,
    _path: &str,
    _verify: bool,
    _progress: &Progress,
) -> Result<Digest, Failure> {
    missing(container)
}
