//! A line over the ceiling: what its head still tells.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserializer, Serialize};

use crate::lenient::{next_key, next_value};

/// What is known of a line that was too long to keep. The identifying fields come first in the agent's lines, so the
/// head usually names them: a tool call that ends in such a line is still known to have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct OversizedLine {
    /// Bytes of the whole line.
    pub length: u64,
    /// SHA-256 of the whole line, in hex.
    pub sha256: String,
    /// The line's `type`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The line's `subtype`.
    pub subtype: Option<String>,
    /// The tool call that it is about.
    pub call_id: Option<String>,
}

impl OversizedLine {
    pub(crate) fn read(head: &[u8], length: u64, sha256: [u8; 32]) -> Self {
        let mut line = Self {
            length,
            sha256: sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
            ..Self::default()
        };
        // The head is cut somewhere in a value: the error at its end is expected, and what came before is kept.
        let text = String::from_utf8_lossy(head);
        let mut deserializer = serde_json::Deserializer::from_str(&text);
        Fields(&mut line).deserialize(&mut deserializer).ok();
        line
    }
}

struct Fields<'l>(&'l mut OversizedLine);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("the head of an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = next_key(&mut map)? {
            let field = match key.as_ref() {
                "type" => &mut self.0.kind,
                "subtype" => &mut self.0.subtype,
                "call_id" => &mut self.0.call_id,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = next_value::<_, Option<Cow<'de, str>>>(&mut map)?.map(Cow::into_owned);
        }
        Ok(())
    }
}
