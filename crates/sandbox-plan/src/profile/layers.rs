//! A profile and the one it extends, read as one.

use std::fmt::Display;
use std::str::FromStr;

use toml::Spanned;

use super::ProfileError;
use super::raw::{List, RawProfile, Scalar};
use crate::origin::{Origin, Sourced};

/// One profile's text.
pub(super) struct Layer {
    name: String,
    line_ends: Vec<usize>,
    pub(super) raw: RawProfile,
}

/// The layers of a profile, the one that is extended first.
pub(super) struct Layers {
    /// The profile that was asked for.
    name: String,
    layers: Vec<Layer>,
}

impl Layer {
    pub(super) fn read(name: &str, text: &str) -> Result<Self, ProfileError> {
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect::<Vec<_>>();
        let raw = toml::from_str(text).map_err(|err: toml::de::Error| ProfileError::Text {
            profile: name.to_owned(),
            line: err.span().map_or(1, |span| line_of(&line_ends, span.start)),
            message: err.message().trim_end().to_owned(),
        })?;
        Ok(Self { name: name.to_owned(), line_ends, raw })
    }

    fn sourced<V, T>(&self, spanned: &Spanned<V>, value: T) -> Sourced<T> {
        Sourced { value, origin: self.origin(spanned) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn line<V>(&self, spanned: &Spanned<V>) -> usize {
        line_of(&self.line_ends, spanned.span().start)
    }

    fn origin<V>(&self, spanned: &Spanned<V>) -> Origin {
        Origin::Profile { profile: self.name.clone(), line: self.line(spanned) }
    }

    fn parse<T: FromStr<Err: Display>>(
        &self,
        spanned: &Spanned<String>,
        text: &str,
    ) -> Result<Sourced<T>, ProfileError> {
        match text.parse() {
            Ok(value) => Ok(self.sourced(spanned, value)),
            Err(reason) => Err(self.invalid(spanned, reason)),
        }
    }

    fn invalid<V>(&self, spanned: &Spanned<V>, reason: impl Display) -> ProfileError {
        ProfileError::Value {
            profile: self.name.clone(),
            line: self.line(spanned),
            reason: reason.to_string(),
        }
    }
}

impl Layers {
    pub(super) fn new(layers: Vec<Layer>) -> Self {
        Self { name: layers.last().map(|layer| layer.name.clone()).unwrap_or_default(), layers }
    }

    /// Returns a key's value as the last layer that has it says.
    pub(super) fn scalar<T: Clone>(
        &self,
        key: &'static str,
        pick: impl Fn(&RawProfile) -> &Scalar<T>,
    ) -> Result<Sourced<T>, ProfileError> {
        let (layer, spanned) = self.last(key, pick)?;
        Ok(layer.sourced(spanned, spanned.get_ref().clone()))
    }

    /// As [`Self::scalar`], of a value that is written as text.
    pub(super) fn parsed<T: FromStr<Err: Display>>(
        &self,
        key: &'static str,
        pick: impl Fn(&RawProfile) -> &Scalar<String>,
    ) -> Result<Sourced<T>, ProfileError> {
        let (layer, spanned) = self.last(key, pick)?;
        layer.parse(spanned, spanned.get_ref())
    }

    /// Returns the entries of all layers, without those that a later one takes away.
    pub(super) fn list<T: FromStr<Err: Display> + PartialEq>(
        &self,
        pick: impl Fn(&RawProfile) -> &List,
    ) -> Result<Vec<Sourced<T>>, ProfileError> {
        let mut entries: Vec<Sourced<T>> = Vec::new();
        for layer in &self.layers {
            for spanned in pick(&layer.raw).iter().flatten() {
                if let Some(unwanted) = spanned.get_ref().strip_prefix('!') {
                    let unwanted = layer.parse::<T>(spanned, unwanted)?.value;
                    let n_before = entries.len();
                    entries.retain(|entry| entry.value != unwanted);
                    if entries.len() == n_before {
                        let reason =
                            format!("`{}` takes away what is not there", spanned.get_ref());
                        return Err(layer.invalid(spanned, reason));
                    }
                } else {
                    let entry = layer.parse(spanned, spanned.get_ref())?;
                    // Said twice, the first place counts: that is where it came from.
                    if entries.iter().all(|known| known.value != entry.value) {
                        entries.push(entry);
                    }
                }
            }
        }
        Ok(entries)
    }

    /// Returns the variables that are set, a later layer's value in place of an earlier one's.
    pub(super) fn set_variables(&self) -> Result<Vec<(String, Sourced<String>)>, ProfileError> {
        let mut variables: Vec<(String, Sourced<String>)> = Vec::new();
        for layer in &self.layers {
            for (name, spanned) in &layer.raw.environment.set {
                let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                if name.is_empty() || !name.bytes().all(plain) {
                    return Err(layer.invalid(spanned, format!("`{name}` cannot name a variable")));
                }
                if spanned.get_ref().contains('\0') {
                    return Err(layer.invalid(spanned, "a variable cannot hold a NUL"));
                }
                let value = layer.sourced(spanned, spanned.get_ref().clone());
                variables.retain(|(known, _)| known != name);
                variables.push((name.clone(), value));
            }
        }
        Ok(variables)
    }

    fn last<T>(
        &self,
        key: &'static str,
        pick: impl Fn(&RawProfile) -> &Scalar<T>,
    ) -> Result<(&Layer, &Spanned<T>), ProfileError> {
        let found = self
            .layers
            .iter()
            .rev()
            .find_map(|layer| pick(&layer.raw).as_ref().map(|spanned| (layer, spanned)));
        found.ok_or_else(|| ProfileError::MissingKey { profile: self.name.clone(), key })
    }
}

fn line_of(line_ends: &[usize], offset: usize) -> usize {
    line_ends.partition_point(|end| *end < offset) + 1
}
