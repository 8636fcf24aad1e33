//! Paths in JSON, including paths that are not UTF-8.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::openapi::schema::OneOfBuilder;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A path. In JSON it is a string if it is UTF-8, and `{"base64": …}` if not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BytesPath(pub PathBuf);

/// The bytes of a path that is not UTF-8.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
struct Encoded {
    /// The path's bytes, in base64.
    base64: String,
}

impl PartialSchema for BytesPath {
    fn schema() -> RefOr<Schema> {
        let what = "A path: a string if it is UTF-8, and its bytes in base64 if not.";
        OneOfBuilder::new()
            .description(Some(what))
            .item(String::schema())
            .item(Encoded::schema())
            .into()
    }
}

impl ToSchema for BytesPath {}

impl AsRef<Path> for BytesPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl<P: Into<PathBuf>> From<P> for BytesPath {
    fn from(path: P) -> Self {
        Self(path.into())
    }
}

impl Serialize for BytesPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => Encoded { base64: STANDARD.encode(self.0.as_os_str().as_bytes()) }
                .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for BytesPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PathVisitor)
    }
}

struct PathVisitor;

impl<'de> de::Visitor<'de> for PathVisitor {
    type Value = BytesPath;

    fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str("a path, or an object with its bytes in base64")
    }

    fn visit_str<E>(self, text: &str) -> Result<BytesPath, E> {
        Ok(BytesPath(PathBuf::from(text)))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<BytesPath, A::Error> {
        let encoded = Encoded::deserialize(de::value::MapAccessDeserializer::new(map))?;
        let bytes = STANDARD.decode(encoded.base64).map_err(de::Error::custom)?;
        Ok(BytesPath(PathBuf::from(OsString::from_vec(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_path_is_read_back(bytes in proptest::collection::vec(1u8.., 0..40)) {
            let path = BytesPath(PathBuf::from(OsString::from_vec(bytes)));
            let json = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<BytesPath>(&json).unwrap(), path);
        }
    }
}
