//! Values as people write them in flags, configuration files and requests: durations, sizes, limits, names.
//!
//! **Invariant:** each value has one way to be read, `FromStr`; clap and serde go through it, so a value that one front end
//! refuses is refused by all of them, with the same words.

mod budget;
mod count;
mod duration;
mod limit;
mod marks;
mod reserved_variables;
mod size;

pub use budget::{Budget, NotABudget, WrittenBudget};
pub use count::{CountLimit, NotACount};
pub use duration::{HumanDuration, NotADuration};
pub use limit::{CpuLimit, MemoryLimit, NotALimit, ProcessLimit, SizeLimit};
pub(crate) use marks::as_object as pairs_as_object;
pub use marks::{Label, MarkError, RunName, Variable, is_variable_name};
pub use reserved_variables::{Reserved, reserved};
pub use size::{ByteSize, NotASize};

/// Reads and writes a type as the text that `FromStr` takes and `Display` gives.
macro_rules! text_serde {
    ($kind:ty, $expected:literal) => {
        crate::written::text_serde!($kind, $expected, {});
        crate::written::text_schema!($kind, $expected, [String]);
    };
    // A count may also be a plain number of JSON or TOML.
    ($kind:ty, $expected:literal, or a number) => {
        crate::written::text_serde!($kind, $expected, {
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$kind, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<$kind, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<$kind, E> {
                self.visit_str(&number.to_string())
            }
        });
        crate::written::text_schema!($kind, $expected, [String, Number]);
    };
    ($kind:ty, $expected:literal, {$($more:item)*}) => {
        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Written;
                impl serde::de::Visitor<'_> for Written {
                    type Value = $kind;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        formatter.write_str($expected)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$kind, E> {
                        text.parse().map_err(E::custom)
                    }

                    $($more)*
                }
                deserializer.deserialize_any(Written)
            }
        }
    };
}
pub(crate) use text_serde;

/// Describes such a type in the API's document.
macro_rules! text_schema {
    ($kind:ty, $expected:literal, [$($json:ident),+]) => {
        impl utoipa::PartialSchema for $kind {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
                let types: SchemaType = [$(Type::$json),+].into_iter().collect();
                ObjectBuilder::new().schema_type(types).description(Some($expected)).into()
            }
        }

        impl utoipa::ToSchema for $kind {}
    };
}
pub(crate) use text_schema;

/// A limit as it is written: zero is `none`.
fn write_limit(
    formatter: &mut std::fmt::Formatter<'_>,
    limit: u64,
    unit: &str,
) -> std::fmt::Result {
    match limit {
        0 => formatter.write_str("none"),
        limit => write!(formatter, "{limit}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Display};
    use std::str::FromStr;
    use std::time::Duration;

    use proptest::prelude::*;
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::*;

    fn comes_back<T>(value: T) -> Result<(), TestCaseError>
    where
        T: Display + FromStr<Err: Debug> + Serialize + DeserializeOwned + PartialEq + Debug,
    {
        let text = value.to_string();
        let read = text.parse::<T>();
        prop_assert!(read.is_ok(), "{text}: {read:?}");
        prop_assert_eq!(&read.unwrap(), &value);
        let json = serde_json::to_value(&value).unwrap();
        prop_assert_eq!(&json, &serde_json::Value::String(text));
        prop_assert_eq!(serde_json::from_value::<T>(json).unwrap(), value);
        Ok(())
    }

    proptest! {
        #[test]
        fn every_value_is_written_as_it_can_be_read(
            number in 0..u64::MAX / 2,
            ms in 1..1_000_000_000_000u64,
            milli in 10..100_000_000u64,
        ) {
            comes_back(ByteSize(number))?;
            comes_back(SizeLimit(number))?;
            comes_back(MemoryLimit(if number < 64 << 20 { 0 } else { number }))?;
            comes_back(ProcessLimit(if number < 24 { 0 } else { number }))?;
            comes_back(CountLimit(number))?;
            comes_back(CpuLimit(milli))?;
            comes_back(HumanDuration::Unlimited)?;
            comes_back(HumanDuration::Limited(Duration::from_millis(ms)))?;
            comes_back(HumanDuration::Limited(Duration::from_nanos(ms.max(1_000_000))))?;
            let budget = Budget { tool_calls: Some(ms), time_ms: None, tokens: Some(milli) };
            comes_back(WrittenBudget(budget))?;
            comes_back(WrittenBudget(Budget { time_ms: Some(ms), ..budget }))?;
            comes_back(WrittenBudget(Budget::default()))?;
        }
    }

    #[test]
    fn counts_may_be_numbers_and_sizes_and_durations_need_a_unit() {
        let count = |json| serde_json::from_str::<CountLimit>(json).map(|count| count.0);
        assert_eq!(count("7").unwrap(), 7);
        assert_eq!(count("\"20k\"").unwrap(), 20_000);
        assert!(count("-5").is_err() && count("[1]").is_err() && count("1.5").is_err());
        assert_eq!(serde_json::from_str::<CpuLimit>("1.5").unwrap(), CpuLimit(1500));
        assert!(serde_json::from_str::<SizeLimit>("5").is_err());
        let error = serde_json::from_str::<HumanDuration>("5").unwrap_err().to_string();
        assert!(error.contains("expected a string"), "{error}");
    }
}
