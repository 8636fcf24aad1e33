//! A profile and the profiles that it extends, merged into one TOML table.
//!
//! Every value in the merged table has its source line: `size = "1G"` becomes `size = { value = "1G", origin =
//! "default.toml:12" }`, which [`Sourced`](crate::origin::Sourced) reads.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::{BUILTIN, ProfileError};

/// The text of one profile.
struct Layer<'a> {
    name: &'a str,
    line_ends: Vec<usize>,
    /// The offset of this text if the texts of all layers were joined. Spans of the merged table use these offsets, so
    /// that a span also identifies its layer.
    start: usize,
    table: DeTable<'a>,
}

/// The tables of all layers, merged.
pub(super) struct Merged<'a> {
    /// The profile that the first layer extends.
    pub(super) extends: Option<String>,
    /// The profile itself, then the profile that it extends, and so on.
    layers: Vec<Layer<'a>>,
    pub(super) table: DeTable<'a>,
}

impl<'a> Layer<'a> {
    fn parse(name: &'a str, text: &'a str, start: usize) -> Result<Self, ProfileError> {
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect();
        let mut layer = Self { name, line_ends, start, table: DeTable::new() };
        layer.table = DeTable::parse(text)
            .map_err(|error| {
                layer.error(error.span().map_or(0, |span| span.start), error.message())
            })?
            .into_inner();
        Ok(layer)
    }

    /// Returns the built-in profile that this layer extends, by its name.
    fn base(&mut self) -> Result<Option<&'static (&'static str, &'static str)>, ProfileError> {
        let Some(extends) = self.table.remove("extends") else { return Ok(None) };
        let base = extends.get_ref().as_str().unwrap_or_default();
        let builtin = BUILTIN.iter().find(|(name, _)| *name == base);
        builtin.map(Some).ok_or_else(|| {
            let message =
                format!("`{base}` is not a built-in profile, and only those can be extended");
            self.error(extends.span().start, &message)
        })
    }

    fn line(&self, offset: usize) -> usize {
        self.line_ends.partition_point(|end| *end < offset) + 1
    }

    fn error(&self, offset: usize, message: &str) -> ProfileError {
        let message = message.trim_end().to_owned();
        ProfileError::Text { profile: self.name.to_owned(), line: self.line(offset), message }
    }

    fn merge(&self, from: DeTable<'a>, into: &mut DeTable<'a>) -> Result<(), ProfileError> {
        for (key, value) in from {
            let (span, value) = (self.shifted(&value), value.into_inner());
            let key = Spanned::new(self.shifted(&key), key.into_inner());
            match value {
                DeValue::Table(table) => {
                    let empty = Spanned::new(span, DeValue::Table(DeTable::new()));
                    let known = into.entry(key).or_insert(empty);
                    if let DeValue::Table(known) = known.get_mut() {
                        self.merge(table, known)?;
                    }
                }
                DeValue::Array(entries) => {
                    let empty = Spanned::new(span, DeValue::Array(DeArray::new()));
                    let known = into.entry(key).or_insert(empty);
                    if let DeValue::Array(known) = known.get_mut() {
                        self.merge_lists(entries, known)?;
                    }
                }
                value => {
                    into.insert(key, self.with_origin(Spanned::new(span, value)));
                }
            }
        }
        Ok(())
    }

    /// Adds the entries of a list, and removes the entry that an entry with `!` names.
    fn merge_lists(&self, from: DeArray<'a>, into: &mut DeArray<'a>) -> Result<(), ProfileError> {
        for entry in from {
            let offset = entry.span().start;
            let text = entry.get_ref().as_str().unwrap_or_default().to_owned();
            let is_same = |known: &Spanned<DeValue<'_>>, text: &str| {
                let known = known.get_ref().get("value").and_then(|known| known.get_ref().as_str());
                // A slash at the end marks a directory: `!.vscode` removes `.vscode/`.
                known.map(|known| known.trim_end_matches('/')) == Some(text.trim_end_matches('/'))
            };
            if let Some(unwanted) = text.strip_prefix('!') {
                let n_before = into.len();
                let known = std::mem::replace(into, DeArray::new()).into_iter();
                *into = known.filter(|known| !is_same(known, unwanted)).collect();
                if into.len() == n_before {
                    let message = format!("`{text}` removes an entry that is not in the list");
                    return Err(self.error(offset, &message));
                }
            } else if !into.iter().any(|known| is_same(known, &text)) {
                let span = self.shifted(&entry);
                into.push(self.with_origin(Spanned::new(span, entry.into_inner())));
            }
        }
        Ok(())
    }

    fn shifted<T>(&self, spanned: &Spanned<T>) -> std::ops::Range<usize> {
        let span = spanned.span();
        span.start + self.start..span.end + self.start
    }

    fn with_origin(&self, value: Spanned<DeValue<'a>>) -> Spanned<DeValue<'a>> {
        let span = value.span();
        let origin = format!("{}.toml:{}", self.name, self.line(span.start - self.start));
        let fields = [
            ("value", value),
            ("origin", Spanned::new(span.clone(), DeValue::String(origin.into()))),
        ];
        let fields = fields.map(|(key, value)| (Spanned::new(span.clone(), key.into()), value));
        Spanned::new(span, DeValue::Table(fields.into_iter().collect()))
    }
}

impl<'a> Merged<'a> {
    pub(super) fn read(name: &'a str, text: &'a str) -> Result<Self, ProfileError> {
        let mut layer = Layer::parse(name, text, 0)?;
        let mut layers = Vec::new();
        let mut start = text.len();
        while let Some((name, text)) = layer.base()? {
            let base = Layer::parse(name, text, start)?;
            start += text.len();
            layers.push(std::mem::replace(&mut layer, base));
        }
        layers.push(layer);
        let extends = layers.get(1).map(|base| base.name.to_owned());
        let mut table = DeTable::new();
        for layer in layers.iter_mut().rev() {
            let own = std::mem::take(&mut layer.table);
            layer.merge(own, &mut table)?;
        }
        Ok(Self { extends, layers, table })
    }

    /// Deserialises the table. An error names the wrong line.
    pub(super) fn deserialize<T: Deserialize<'a>>(
        &self,
        table: DeTable<'a>,
    ) -> Result<T, ProfileError> {
        T::deserialize(toml::Deserializer::from(Spanned::new(0..0, table))).map_err(|error| {
            let mut message = error.message().to_owned();
            if message.starts_with("missing field") {
                message.push_str("; give it, or begin with `extends = \"default\"`");
            }
            let offset = error.span().map_or(0, |span| span.start);
            let layer = self.layers.iter().rev().find(|layer| layer.start <= offset);
            match layer {
                Some(layer) => layer.error(offset - layer.start, &message),
                None => ProfileError::Text { profile: String::new(), line: 1, message },
            }
        })
    }
}
