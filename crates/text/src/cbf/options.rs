//! Options of the binary format.

use cntk_reader_core::Result;
use cntk_reader_core::file::Confinement;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::format::files::Files;
use cntk_reader_core::format::options::{Context, Facts, Format, Opened, Signature};
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::stream::{ElementType, Ids};

/// Options of the binary deserializer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryOptions {
    /// The files, in order.
    pub files: Files,
    /// The files share one numbering of sequences (`sharedIds`).
    pub shared_ids: bool,
    /// New names of streams, with their names in the file.
    pub renamed: Vec<(String, String)>,
    /// Streams whose one-hot samples are delivered as class numbers, by their delivered names
    /// (`ids`).
    pub ids: Vec<(String, Ids)>,
    /// As in CNTK, ignores new names for streams that the file does not have, and takes the last of
    /// several new names for one stream. If false, both are errors.
    pub ignores_unmatched: bool,
    /// Keep every loaded chunk in memory.
    pub keep_data_in_memory: bool,
    /// Level of logging.
    pub log: Logger,
    /// Type of the values; must be the file's type.
    pub element: ElementType,
}

impl Format for BinaryOptions {
    fn type_name(&self) -> &str {
        "CNTKBinaryFormatDeserializer"
    }

    fn name(&self) -> &str {
        self.files.name()
    }

    fn facts(&self) -> Facts {
        Facts {
            signature: Signature::Is(FileFormat::Cbf),
            has_written_indices: true,
            lacks_keys: true,
            ..Facts::default()
        }
    }

    fn open(&self, context: Context<'_>) -> Result<Opened> {
        let Context { corpus, pool, .. } = context;
        Ok(AnyDeserializer::Known(pool.install(|| super::open_files(self, corpus, true))?).into())
    }

    fn data_files(&self) -> Result<Vec<String>> {
        self.files.paths()
    }

    fn confine(&mut self, _: &Confinement) {}

    fn speak(&mut self, front_end: FrontEnd) {
        self.log.front_end = front_end;
    }

    fn follow(&mut self, _: Release) {
        self.ignores_unmatched = true;
    }

    fn keep_nothing(&mut self) {
        self.keep_data_in_memory = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;
    use std::path::Path;

    #[test]
    fn options_describe_the_format() {
        let mut options = BinaryOptions { keep_data_in_memory: true, ..options(Path::new("/data/a.cbf")) };
        assert_eq!((options.type_name(), options.name()), ("CNTKBinaryFormatDeserializer", "/data/a.cbf"));
        assert_eq!(options.data_files().expect("paths"), ["/data/a.cbf"]);
        let facts = options.facts();
        assert_eq!(
            (facts.signature, facts.has_written_indices, facts.lacks_keys),
            (Signature::Is(FileFormat::Cbf), true, true)
        );
        assert!(!options.ignores_unmatched);
        options.follow(Release::Current);
        options.keep_nothing();
        options.speak(FrontEnd::Python);
        assert!(options.ignores_unmatched && !options.keep_data_in_memory);
        assert_eq!(options.log.front_end, FrontEnd::Python);
    }
}
