//! From options to deserializers.

use crate::config::options::{DeserializerOptions, ReaderOptions};
use crate::corpus::Corpus;
use crate::deserialize::Deserializer;
use crate::deserialize::custom::Registered;
use crate::deserialize::text::TextDeserializer;
use crate::pool::Pool;
use crate::{Error, Result};
use std::sync::Arc;

/// The corpus that the keys of all deserializers live in.
pub(super) fn corpus(options: &ReaderOptions) -> Arc<Corpus> {
    Arc::new(match (options.numeric_keys, options.hash_keys) {
        (true, _) => Corpus::Numeric,
        (false, true) => Corpus::Hashed,
        (false, false) => Corpus::symbolic(),
    })
}

/// Opens the one source of sequences that the options describe.
pub(super) fn deserializer(
    options: &ReaderOptions,
    registered: &[Registered],
    corpus: &Arc<Corpus>,
    pool: &Pool,
) -> Result<Arc<dyn Deserializer>> {
    let [only] = options.deserializers.as_slice() else {
        let message = "Several deserializers in one reader are not supported yet.";
        return Err(Error::argument(message));
    };
    let (deserializer, file): (Arc<dyn Deserializer>, _) = match only {
        DeserializerOptions::Text(text) => {
            (Arc::new(pool.install(|| TextDeserializer::open(text, corpus))?), Some(&text.file))
        }
        DeserializerOptions::User(user) => {
            let found = registered.iter().find(|registered| registered.name == user.name);
            let Some(found) = found else {
                let message = format!("No deserializer was registered as '{}'.", user.name);
                return Err(Error::argument(message));
            };
            (found.open(user.composable, corpus)?, None)
        }
    };
    // CNTK 2.7 says this when it does not randomize, and divides by zero when it does.
    if deserializer.chunks().is_empty() {
        let message = "Expected input to contain samples, but the number of successfully read samples was 0.";
        let error = Error::data(message);
        return Err(match file {
            Some(file) => error.in_file(file),
            None => error,
        });
    }
    Ok(deserializer)
}
