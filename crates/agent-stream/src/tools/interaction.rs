//! `interaction_query`: the agent's question to its user, and the CLI's answer on the user's behalf.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::{IgnoredAny, MapAccess};
use serde_json::value::RawValue;

use crate::lines::lenient::{Lenient, Shape, next_key, next_value};

/// One half of a query: the request, or the answer with the same `id`.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Interaction<'a> {
    /// The name of the query, e.g. `webFetchRequestQuery`. Request and response have the same name.
    pub query_type: Option<Cow<'a, str>>,
    /// The number of the query.
    pub id: Option<u64>,
    /// `None` on a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<QueryAnswer<'a>>,
    /// The `query` or `response` object, unchanged.
    #[schema(value_type = Option<serde_json::Value>)]
    pub raw: Option<&'a RawValue>,
}

/// The answer to a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum QueryAnswer<'a> {
    /// Approved.
    Approved,
    /// Rejected.
    Rejected {
        /// The reason.
        reason: Option<Cow<'a, str>>,
    },
    /// An answer of an unknown shape.
    Other,
}

impl<'a> Interaction<'a> {
    pub(crate) fn request(query_type: Option<Cow<'a, str>>, raw: Option<&'a RawValue>) -> Self {
        let body = read_body(raw);
        Self { query_type, id: body.id, answer: None, raw }
    }

    pub(crate) fn response(query_type: Option<Cow<'a, str>>, raw: Option<&'a RawValue>) -> Self {
        let body = read_body(raw);
        Self { query_type, id: body.id, answer: Some(body.answer.0), raw }
    }
}

fn read_body<'a>(raw: Option<&'a RawValue>) -> Body<'a> {
    // Queries are rare and small, so parsing the raw value a second time costs little.
    raw.and_then(|raw| serde_json::from_str::<Lenient<Body<'a>>>(raw.get()).ok())
        .map(|Lenient(body)| body)
        .unwrap_or_default()
}

/// `{"id": 0, "<name of the query or its response>": {…}}`
#[derive(Default)]
struct Body<'a> {
    id: Option<u64>,
    answer: Answer<'a>,
}

impl<'de> Shape<'de> for Body<'de> {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut body = Self::default();
        while let Some(key) = next_key(&mut map)? {
            if key == "id" {
                body.id = next_value(&mut map)?;
            } else {
                body.answer = next_value(&mut map)?;
            }
        }
        Ok(body)
    }
}

struct Answer<'a>(QueryAnswer<'a>);

impl Default for Answer<'_> {
    fn default() -> Self {
        Self(QueryAnswer::Other)
    }
}

/// The decision is directly in the answer, or one level down in `result`.
impl<'de> Shape<'de> for Answer<'de> {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut answer = Self::default();
        while let Some(key) = next_key(&mut map)? {
            match key.as_ref() {
                "approved" | "success" => {
                    map.next_value::<IgnoredAny>()?;
                    answer = Self(QueryAnswer::Approved);
                }
                "rejected" => {
                    let Reason(reason) = next_value(&mut map)?;
                    answer = Self(QueryAnswer::Rejected { reason });
                }
                "result" => answer = next_value(&mut map)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(answer)
    }
}

#[derive(Default)]
struct Reason<'a>(Option<Cow<'a, str>>);

impl<'de> Shape<'de> for Reason<'de> {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut reason = None;
        while let Some(key) = next_key(&mut map)? {
            let value = next_value(&mut map)?;
            if key == "reason" {
                reason = value;
            }
        }
        Ok(Self(reason))
    }
}
