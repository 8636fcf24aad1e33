//! Tool calls: the tool, its arguments and its outcome.

use std::borrow::Cow;

use serde::de::{IgnoredAny, MapAccess};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::lines::lenient::{Shape, next_key, next_value};

/// One `tool_call` event, started or completed.
#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
#[schema(as = AgentToolCall)]
pub struct ToolCall<'a> {
    /// Often contains a line feed (`call_…\nfc_…`): never use it as a file name, and never print it raw.
    pub call_id: Option<Cow<'a, str>>,
    /// The id of the model call that asked for it.
    pub model_call_id: Option<Cow<'a, str>>,
    /// The key that ends in `ToolCall`, without that ending: `shell`, `read`, `edit`, ….
    pub name: Option<Cow<'a, str>>,
    /// The arguments. The end of a rejected call lacks them; its start has them.
    #[schema(value_type = Option<serde_json::Value>)]
    pub args: Option<&'a RawValue>,
    /// The agent's own description of the call.
    pub description: Option<Cow<'a, str>>,
    /// `None` until the call is completed, or if a completed call has no result.
    pub outcome: Option<Outcome<'a>>,
    /// When it started, by the server's clock, which may run ahead of the event's `timestamp_ms`.
    pub started_at_ms: Option<u64>,
    /// When it ended, by the same clock.
    pub completed_at_ms: Option<u64>,
}

impl ToolCall<'_> {
    /// The tool's name, or a placeholder.
    pub fn name_or_unnamed(&self) -> &str {
        self.name.as_deref().unwrap_or("(unnamed)")
    }
}

/// The outcome of a call, with its details unchanged.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = AgentToolOutcome)]
pub struct Outcome<'a> {
    /// The agent's name for it: `success`, `failure`, `rejected`, …
    #[schema(value_type = String)]
    pub kind: OutcomeKind<'a>,
    /// The tool's result, unchanged.
    #[schema(value_type = serde_json::Value)]
    pub detail: &'a RawValue,
    /// The command continues in the background: `success` then only means that it started.
    pub is_background: bool,
}

macro_rules! outcome_kinds {
    ($($variant:ident = $key:literal $class:ident,)*) => {
        /// The possible keys of a tool's result, for all tools together. A result has one of them.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum OutcomeKind<'a> {
            $($variant,)*
            /// A key that this build does not know. It counts neither as a success nor as a failure.
            Unknown(Cow<'a, str>),
        }

        impl<'a> OutcomeKind<'a> {
            fn known(key: &str) -> Option<Self> {
                match key {
                    $($key => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The key as the agent writes it.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $key,)*
                    Self::Unknown(key) => key,
                }
            }

            pub fn class(&self) -> OutcomeClass {
                match self {
                    $(Self::$variant => OutcomeClass::$class,)*
                    Self::Unknown(_) => OutcomeClass::Neutral,
                }
            }
        }
    };
}

outcome_kinds! {
    Success = "success" Good,
    Failure = "failure" Bad,
    Error = "error" Bad,
    Rejected = "rejected" Refused,
    PermissionDenied = "permissionDenied" Refused,
    ReadPermissionDenied = "readPermissionDenied" Refused,
    WritePermissionDenied = "writePermissionDenied" Refused,
    Timeout = "timeout" Bad,
    SpawnError = "spawnError" Bad,
    FileNotFound = "fileNotFound" Bad,
    NotFile = "notFile" Bad,
    FileBusy = "fileBusy" Bad,
    NotFound = "notFound" Bad,
    Async = "async" Neutral,
    Complete = "complete" Good,
    StillRunning = "stillRunning" Neutral,
    StartSuccess = "startSuccess" Good,
    SaveSuccess = "saveSuccess" Good,
    DiscardSuccess = "discardSuccess" Good,
    Registered = "registered" Good,
    NeedsConfirmation = "needsConfirmation" Neutral,
}

impl Serialize for OutcomeKind<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The outcome, reduced to whether the call worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeClass {
    Good,
    Bad,
    /// The call was not allowed to run.
    Refused,
    Neutral,
}

/// Other fields of a shell result, next to the oneof. One of them may be an object.
const RESULT_SIBLINGS: [&str; 4] = ["isBackground", "sandboxPolicy", "terminalsFolder", "pid"];

/// `tool_call: {"<x>ToolCall": {args, result, description}, "toolCallId": …, "startedAtMs": …}`
impl<'de> Shape<'de> for ToolCall<'de> {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut call = Self::default();
        while let Some(key) = next_key(&mut map)? {
            match key.as_ref() {
                "toolCallId" => call.call_id = next_value(&mut map)?,
                "startedAtMs" => call.started_at_ms = next_value(&mut map)?,
                "completedAtMs" => call.completed_at_ms = next_value(&mut map)?,
                // The documented generic form: {"function": {"name": …, "arguments": …}}.
                "function" if call.name.is_none() => {
                    let Payload { name, args, outcome, description } = next_value(&mut map)?;
                    call = Self { name, args, outcome, description, ..call };
                }
                _ => match tool_name(&key) {
                    Some(name) if call.name.is_none() => {
                        let Payload { args, outcome, description, .. } = next_value(&mut map)?;
                        call = Self { name: Some(name), args, outcome, description, ..call };
                    }
                    _ => {
                        map.next_value::<IgnoredAny>()?;
                    }
                },
            }
        }
        Ok(call)
    }
}

fn tool_name<'a>(key: &Cow<'a, str>) -> Option<Cow<'a, str>> {
    match key {
        Cow::Borrowed(key) => key.strip_suffix("ToolCall").map(Cow::Borrowed),
        Cow::Owned(key) => key.strip_suffix("ToolCall").map(|name| Cow::Owned(name.to_owned())),
    }
    .filter(|name| !name.is_empty())
}

#[derive(Default)]
struct Payload<'a> {
    /// Only in the generic `function` form.
    name: Option<Cow<'a, str>>,
    args: Option<&'a RawValue>,
    description: Option<Cow<'a, str>>,
    outcome: Option<Outcome<'a>>,
}

impl<'de> Shape<'de> for Payload<'de> {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut payload = Self::default();
        while let Some(key) = next_key(&mut map)? {
            match key.as_ref() {
                "name" => payload.name = next_value(&mut map)?,
                "args" | "arguments" => payload.args = Some(map.next_value::<&RawValue>()?),
                "description" => payload.description = next_value(&mut map)?,
                "result" => {
                    payload.outcome = next_value(&mut map)?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        payload.args = payload.args.filter(|args| args.get() != "null");
        Ok(payload)
    }
}

impl<'de> Shape<'de> for Option<Outcome<'de>> {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut found: Option<(OutcomeKind<'de>, &'de RawValue)> = None;
        let mut is_background = false;
        while let Some(key) = next_key(&mut map)? {
            if key == "isBackground" {
                is_background = next_value::<_, Option<bool>>(&mut map)?.unwrap_or(false);
            } else if RESULT_SIBLINGS.contains(&key.as_ref()) {
                map.next_value::<IgnoredAny>()?;
            } else {
                let detail = map.next_value::<&RawValue>()?;
                match OutcomeKind::known(&key) {
                    Some(kind) => found = Some((kind, detail)),
                    // A new outcome is an object, like the others. A scalar is a new plain field.
                    None if found.is_none() && detail.get().starts_with('{') => {
                        found = Some((OutcomeKind::Unknown(key), detail));
                    }
                    None => {}
                }
            }
        }
        Ok(found.map(|(kind, detail)| Outcome { kind, detail, is_background }))
    }
}

#[cfg(test)]
#[path = "tool_call_tests.rs"]
mod tests;
