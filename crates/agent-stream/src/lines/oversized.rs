//! The facts that the beginning of an oversized line still shows.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserializer, Serialize};

use crate::lines::lenient::{next_key, next_value};

/// The facts about a line that was too long to keep. The agent writes the identifying fields first, so the beginning
/// usually has them: we still learn that a tool call has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct OversizedLine {
    /// The length of the whole line, in bytes.
    pub length: u64,
    /// SHA-256 of the whole line, in hex.
    pub sha256: String,
    /// The line's `type`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The line's `subtype`.
    pub subtype: Option<String>,
    /// The id of the tool call on this line.
    pub call_id: Option<String>,
}

impl OversizedLine {
    pub(crate) fn read(head: &[u8], length: u64, sha256: [u8; 32]) -> Self {
        let mut line = Self {
            length,
            sha256: sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
            ..Self::default()
        };
        // The text is cut inside a value, so an error at its end is expected. Everything before the cut is used.
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
