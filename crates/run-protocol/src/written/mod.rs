//! Values as people write them in flags, configuration files and requests: durations, sizes, limits, names.
//!
//! **Invariant:** each type has one parser, `FromStr`, which clap and serde use too. So the command line, the
//! configuration and the API refuse the same values with the same message.

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

/// Serialises a type as text, with `FromStr` and `Display`.
macro_rules! text_serde {
    ($kind:ty, $expected:literal) => {
        crate::written::text_serde!($kind, $expected, {});
        crate::written::text_schema!($kind, $expected, [String]);
    };
    // A count may also be a number in JSON or TOML.
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

/// Describes a type with `text_serde` in the API's OpenAPI document.
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

/// Writes a limit; zero is `none`.
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
#[path = "written_tests.rs"]
mod tests;
