//! The well-known `google.protobuf.Value`: any JSON value, used for the arguments of MCP tools.

use std::collections::BTreeMap;

messages! {
    /// A JSON value. A value without `kind` is the writer's mistake and reads as null.
    Value {
        kind: Option<ValueKind> [oneof = "ValueKind", tags = "1, 2, 3, 4, 5, 6"],
    }

    union ValueKind {
        /// Always zero.
        1 NullValue(i32) [int32],
        2 NumberValue(f64) [double],
        3 StringValue(String) [string],
        4 BoolValue(bool) [bool],
        5 StructValue(StructValue) [message],
        6 ListValue(ListValue) [message],
    }

    StructValue {
        1 fields: BTreeMap<String, Value> [btree_map = "string, message"],
    }

    ListValue {
        1 values: Vec<Value> [message, repeated],
    }
}

impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Self {
        use serde_json::Value as Json;
        let kind = match json {
            Json::Null => ValueKind::NullValue(0),
            Json::Bool(value) => ValueKind::BoolValue(value),
            // The format has only doubles. An integer beyond 2^53 loses its last digits in Cursor too.
            Json::Number(value) => ValueKind::NumberValue(value.as_f64().unwrap_or(f64::NAN)),
            Json::String(value) => ValueKind::StringValue(value),
            Json::Array(values) => ValueKind::ListValue(ListValue {
                values: values.into_iter().map(Self::from).collect(),
            }),
            Json::Object(fields) => ValueKind::StructValue(StructValue {
                fields: fields.into_iter().map(|(key, value)| (key, Self::from(value))).collect(),
            }),
        };
        Self { kind: Some(kind) }
    }
}

impl From<Value> for serde_json::Value {
    fn from(value: Value) -> Self {
        match value.kind {
            None | Some(ValueKind::NullValue(_)) => Self::Null,
            Some(ValueKind::NumberValue(number)) => json_number(number),
            Some(ValueKind::StringValue(text)) => Self::String(text),
            Some(ValueKind::BoolValue(value)) => Self::Bool(value),
            Some(ValueKind::StructValue(object)) => Self::Object(
                object.fields.into_iter().map(|(key, value)| (key, Self::from(value))).collect(),
            ),
            Some(ValueKind::ListValue(list)) => {
                Self::Array(list.values.into_iter().map(Self::from).collect())
            }
        }
    }
}

/// Writes whole numbers without `.0`, like the original JSON.
fn json_number(number: f64) -> serde_json::Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0
        && number.abs() <= EXACT
        && !(number == 0.0 && number.is_sign_negative())
    {
        serde_json::Value::from(number as i64)
    } else {
        // Infinity and NaN have no JSON form and become null.
        serde_json::Value::from(number)
    }
}
