//! Releases of CNTK in whose place a reader may stand, and what they do differently with the same
//! data.

/// Releases of CNTK that read the same data differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The betas 12 and 15 of CNTK 2.0.
    Beta,
    /// CNTK 2.0 to 2.7.
    Current,
}

impl Release {
    /// What is different in its data.
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

/// Ways in which a release of CNTK differs from this library with the same data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quirks {
    /// Where several sequences have one key, the first one of a text file and the last one of a
    /// script of features is found. Otherwise, it is the one that CNTK's sort leaves in front, and
    /// scripts drop all of them.
    pub keeps_repeated_keys: bool,
    /// A text file begins with an id or, where every line is a sequence, with a line. Otherwise,
    /// white space before them is skipped.
    pub refuses_leading_space: bool,
    /// In a text file, the name of a sample that is longer than every name of the configuration is
    /// an error. Otherwise, the sample is skipped as those of other unknown names are.
    pub refuses_long_names: bool,
    /// Columns of labels are divided by any number of blanks and tabs. Otherwise, by one blank.
    pub takes_any_blanks: bool,
    /// In a text file, each line that begins with a textual id is an error, and is read all the
    /// same. Otherwise it is no error.
    pub refuses_text_ids: bool,
}
