//! Options of deserializers from outside this library.

use super::{Description, Registered, Request};
use crate::file::Confinement;
use crate::format::options::{Context, Facts, Format, Opened};
use crate::option::release::Release;
use crate::{Error, Result};

/// Options of a deserializer that a [factory](super::Factory) makes.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignOptions {
    /// The section's `type`.
    pub name: String,
    /// Its description for the factory.
    pub description: Description,
    /// Its sequences are known beforehand (`composable`).
    pub composable: bool,
}

/// Options of a user's deserializer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOptions {
    /// The name under which it was registered, the section's `type`.
    pub name: String,
    /// Its sequences are known beforehand, and the section permits using that (it does not set
    /// `composable = false`).
    pub composable: bool,
}

impl Format for UserOptions {
    fn type_name(&self) -> &str {
        &self.name
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Facts {
        Facts { is_foreign: true, ..Facts::default() }
    }

    fn open(&self, context: Context<'_>) -> Result<Opened> {
        let Context { corpus, is_primary, users, .. } = context;
        let number = users.names.and_then(|names| names.number(&self.name));
        let found = number.and_then(|number| users.registered.get(number));
        let found = found.ok_or_else(|| not_registered(&self.name, users.registered))?;
        Ok(found.open(self.composable, is_primary, corpus)?.into())
    }

    fn confine(&mut self, _: &Confinement) {}

    fn follow(&mut self, _: Release) {}
}

/// The error of a name under which nothing was registered.
fn not_registered(name: &str, registered: &[Registered]) -> Error {
    let names: Vec<_> = registered.iter().map(|one| format!("'{}'", one.name())).collect();
    let known = match names.is_empty() {
        true => "None was registered.".to_owned(),
        false => format!("Registered deserializers: {}.", names.join(", ")),
    };
    Error::argument(format!("No deserializer was registered as '{name}'."))
        .with_detail(known)
        .with_detail("Register it under the name in the configuration's 'type' before opening the reader.")
}

impl Format for ForeignOptions {
    fn type_name(&self) -> &str {
        &self.name
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Facts {
        Facts { is_foreign: true, ..Facts::default() }
    }

    fn open(&self, context: Context<'_>) -> Result<Opened> {
        let Context { corpus, is_primary, users, .. } = context;
        let ForeignOptions { name, description, composable } = self;
        let factory = users.factory.ok_or_else(|| Error::internal("There is no factory."))?;
        let is_composable = *composable;
        Ok(super::make(factory, &Request { description, name, corpus, is_primary, is_composable })?.into())
    }

    fn confine(&mut self, _: &Confinement) {}

    fn follow(&mut self, _: Release) {}
}
