//! Releases of CNTK that a reader can emulate, and how they treat the same data differently.

/// Releases of CNTK that read the same data differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The betas 12 and 15 of CNTK 2.0.
    Beta,
    /// CNTK 2.0 to 2.7.
    Current,
}

impl Release {
    /// Returns the differences of this release.
    pub fn quirks(self) -> Quirks {
        let is_beta = self == Release::Beta;
        Quirks {
            keeps_repeated_keys: is_beta,
            refuses_leading_space: is_beta,
            refuses_long_names: is_beta,
            takes_any_blanks: is_beta,
            refuses_text_ids: true,
        }
    }
}

/// Differences between a release of CNTK and this library on the same data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quirks {
    /// If several sequences have the same key, a look-up finds the first one in a text file, and
    /// the last one in a script of features. Otherwise it finds the one that CNTK's sort puts
    /// first, and scripts drop all of them.
    pub keeps_repeated_keys: bool,
    /// A text file must begin with an id or, where every line is a sequence, with a line.
    /// Otherwise, leading white space is skipped.
    pub refuses_leading_space: bool,
    /// In a text file, a sample name longer than every name in the configuration is an error.
    /// Otherwise, the sample is skipped like those of other unknown names.
    pub refuses_long_names: bool,
    /// Columns of labels are separated by any number of blanks and tabs. Otherwise, by one blank.
    pub takes_any_blanks: bool,
    /// In a text file, each line that begins with a textual id is reported as an error, but still
    /// read. Otherwise it is no error.
    pub refuses_text_ids: bool,
}
