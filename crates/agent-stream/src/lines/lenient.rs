//! Field types that accept any JSON value: a field with an unexpected shape counts as absent, not as an error.
//!
//! The agent's next version may send a number where we expect a string. An error would lose everything else on the
//! line.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Reads the kinds of JSON values that it understands, and returns its default for all others.
pub(crate) trait Shape<'de>: Default {
    fn string(_: Cow<'de, str>) -> Self {
        Self::default()
    }
    fn unsigned(_: u64) -> Self {
        Self::default()
    }
    fn signed(_: i64) -> Self {
        Self::default()
    }
    fn float(_: f64) -> Self {
        Self::default()
    }
    fn boolean(_: bool) -> Self {
        Self::default()
    }
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
    fn array<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// For `#[serde(deserialize_with = "lenient")]`.
pub(crate) fn lenient<'de, D: Deserializer<'de>, T: Shape<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(ShapeVisitor(PhantomData))
}

/// A value read by its [`Shape`], for places where serde wants a type: `map.next_value::<Lenient<T>>()`.
pub(crate) struct Lenient<T>(pub(crate) T);

impl<'de, T: Shape<'de>> serde::Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        lenient(deserializer).map(Self)
    }
}

/// The next key of an object, borrowed unless it has escapes (`Cow`'s own `Deserialize` never borrows).
#[inline]
pub(crate) fn next_key<'de, A: MapAccess<'de>>(
    map: &mut A,
) -> Result<Option<Cow<'de, str>>, A::Error> {
    Ok(map
        .next_key::<Lenient<Option<Cow<'de, str>>>>()?
        .map(|Lenient(key)| key.unwrap_or_default()))
}

/// The value that belongs to the key just read.
#[inline]
pub(crate) fn next_value<'de, A: MapAccess<'de>, T: Shape<'de>>(
    map: &mut A,
) -> Result<T, A::Error> {
    map.next_value::<Lenient<T>>().map(|Lenient(value)| value)
}

struct ShapeVisitor<T>(PhantomData<T>);

impl<'de, T: Shape<'de>> Visitor<'de> for ShapeVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("any JSON value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<T, E> {
        Ok(T::boolean(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<T, E> {
        Ok(T::unsigned(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<T, E> {
        Ok(T::signed(value))
    }
    fn visit_f64<E>(self, value: f64) -> Result<T, E> {
        Ok(T::float(value))
    }
    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<T, E> {
        Ok(T::string(Cow::Borrowed(value)))
    }
    fn visit_str<E>(self, value: &str) -> Result<T, E> {
        Ok(T::string(Cow::Owned(value.to_owned())))
    }
    fn visit_string<E>(self, value: String) -> Result<T, E> {
        Ok(T::string(Cow::Owned(value)))
    }
    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::object(map)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
        T::array(seq)
    }
}

impl<'de> Shape<'de> for Option<Cow<'de, str>> {
    fn string(value: Cow<'de, str>) -> Self {
        Some(value)
    }
}

impl<'de> Shape<'de> for Option<bool> {
    fn boolean(value: bool) -> Self {
        Some(value)
    }
}

/// Inside `tool_call`, 64-bit numbers arrive as JSON strings (protobuf JSON), elsewhere as numbers.
impl<'de> Shape<'de> for Option<u64> {
    fn string(value: Cow<'de, str>) -> Self {
        value.parse().ok()
    }
    fn unsigned(value: u64) -> Self {
        Some(value)
    }
    fn float(value: f64) -> Self {
        // Durations may have a fraction. `as` saturates, so no value can panic here.
        (value >= 0.0).then_some(value as u64)
    }
}

impl<'de> Shape<'de> for Option<i64> {
    fn string(value: Cow<'de, str>) -> Self {
        value.parse().ok()
    }
    fn unsigned(value: u64) -> Self {
        i64::try_from(value).ok()
    }
    fn signed(value: i64) -> Self {
        Some(value)
    }
    fn float(value: f64) -> Self {
        Some(value as i64)
    }
}

/// Reads an object with its derived `Deserialize`, and anything else as the default.
macro_rules! shape_of_object {
    ($de:lifetime, $type:ty) => {
        impl<$de> $crate::lines::lenient::Shape<$de> for $type {
            fn object<A: serde::de::MapAccess<$de>>(map: A) -> Result<Self, A::Error> {
                serde::Deserialize::deserialize(serde::de::value::MapAccessDeserializer::new(map))
            }
        }
    };
    (optional $de:lifetime, $type:ty) => {
        impl<$de> $crate::lines::lenient::Shape<$de> for Option<$type> {
            fn object<A: serde::de::MapAccess<$de>>(map: A) -> Result<Self, A::Error> {
                serde::Deserialize::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                    .map(Some)
            }
        }
    };
}
pub(crate) use shape_of_object;
