//! The conversations in the value of a row, in any of the old shapes.

use std::borrow::Cow;

use serde_json::{Map, Value as Json, json};

use super::bubble::{decode_bubble, moment};
use super::chat_session::{decode_requests, pieces_of_requests};
use super::database::{ALL_KEYS, CHATS, COMPOSERS, GENERATIONS, PROMPTS, Row, SESSIONS};
use super::prompts::{decode_prompts, pieces_of_prompts};
use crate::ide::capability_tools;
use crate::json_values::{items, text_of};
use crate::lenient_json;
use crate::model::{Activity, Head, Message, Moment, Part, Role, Shelf, Turn};
use crate::text::title::title_of;

/// The shapes of old conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A tab of the chat panel.
    Chat,
    /// A composer with its bubbles inside.
    Composer,
    /// A chat of VS Code's own panel.
    Session,
    /// The prompts of a workspace, without their conversations.
    Prompts,
    /// A row that is not JSON. Its conversations cannot be separated.
    Damaged,
}

/// One conversation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    pub(super) shape: Shape,
    /// Cursor's id. Empty for prompts, which have none.
    pub(super) id: String,
    pub(super) value: Json,
}

impl Shape {
    pub(super) const ALL: [Self; 5] =
        [Self::Chat, Self::Composer, Self::Session, Self::Prompts, Self::Damaged];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Composer => "composer",
            Self::Session => "session",
            Self::Prompts => "prompts",
            Self::Damaged => "damaged",
        }
    }

    /// The keys of the rows that hold this shape.
    pub(super) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Chat => &[CHATS],
            Self::Composer => &[COMPOSERS],
            Self::Session => &[SESSIONS],
            Self::Prompts => &[PROMPTS, GENERATIONS],
            Self::Damaged => &ALL_KEYS,
        }
    }

    fn messages_field(self) -> &'static str {
        match self {
            Self::Chat => "bubbles",
            Self::Composer => "conversation",
            Self::Session => "requests",
            Self::Prompts | Self::Damaged => "prompts",
        }
    }
}

/// The conversations in some rows.
pub(super) struct KeptRows<'a> {
    pub(super) kept: Vec<(Kept, &'a Row)>,
    /// Rows that are not JSON.
    pub(super) broken: Vec<(&'a Row, serde_json::Error)>,
}

/// Extracts the conversations from rows.
pub(super) fn kept_in(rows: &[Row]) -> KeptRows<'_> {
    let mut kept = Vec::new();
    let mut broken = Vec::new();
    let mut typed: Map<String, Json> = Map::new();
    let mut typed_row = None;
    for row in rows {
        let value = match lenient_json::parse(&row.value) {
            Ok(value) => value,
            Err(err) => {
                broken.push((row, err));
                let value = Json::String(String::from_utf8_lossy(&row.value).into_owned());
                kept.push((Kept { shape: Shape::Damaged, id: row.key.to_owned(), value }, row));
                continue;
            }
        };
        match row.key {
            CHATS => kept.extend(chats(value).map(|chat| (chat, row))),
            COMPOSERS => kept.extend(composers(value).map(|composer| (composer, row))),
            SESSIONS => kept.extend(sessions(value).map(|session| (session, row))),
            PROMPTS | GENERATIONS => {
                let name = if row.key == PROMPTS { "prompts" } else { "generations" };
                if !items(&value).is_empty() {
                    typed.insert(name.to_owned(), value);
                    typed_row = typed_row.or(Some(row));
                }
            }
            _ => {}
        }
    }
    if let Some(row) = typed_row {
        let value = Json::Object(typed);
        kept.push((Kept { shape: Shape::Prompts, id: String::new(), value }, row));
    }
    KeptRows { kept, broken }
}

fn chats(mut value: Json) -> impl Iterator<Item = Kept> {
    take_array(value.get_mut("tabs")).into_iter().map(|tab| Kept {
        shape: Shape::Chat,
        id: text_of(&tab, &["tabId", "id"]).unwrap_or_default().to_owned(),
        value: tab,
    })
}

/// Heads without bubbles belong to the reader of the modern IDE.
fn composers(mut value: Json) -> impl Iterator<Item = Kept> {
    take_array(value.get_mut("allComposers"))
        .into_iter()
        .filter(|head| !items(&head["conversation"]).is_empty())
        .map(|head| Kept {
            shape: Shape::Composer,
            id: text_of(&head, &["composerId"]).unwrap_or_default().to_owned(),
            value: head,
        })
}

/// An array, or an object of sessions by id.
fn sessions(value: Json) -> impl Iterator<Item = Kept> {
    let sessions = match value {
        Json::Array(sessions) => sessions,
        Json::Object(by_id) => by_id.into_iter().map(|(_, session)| session).collect(),
        _ => Vec::new(),
    };
    sessions.into_iter().filter(Json::is_object).map(|session| Kept {
        shape: Shape::Session,
        id: text_of(&session, &["sessionId"]).unwrap_or_default().to_owned(),
        value: session,
    })
}

fn take_array(value: Option<&mut Json>) -> Vec<Json> {
    match value.map(Json::take).unwrap_or_default() {
        Json::Array(values) => values.into_iter().filter(Json::is_object).collect(),
        _ => Vec::new(),
    }
}

impl Kept {
    /// The messages. There is one for each of [`Self::pieces`].
    pub(super) fn messages(&self) -> Vec<Message> {
        let bubbles = items(&self.value[self.shape.messages_field()]);
        match self.shape {
            Shape::Chat => {
                let mut messages: Vec<Message> =
                    bubbles.iter().map(|bubble| decode_bubble(bubble, None)).collect();
                // A tab has only one time: that of its last prompt.
                let last = messages.iter_mut().rev().find(|message| message.role == Role::User);
                if let Some(last) = last {
                    last.at = last.at.or(moment(&self.value["lastSendTime"]));
                }
                messages
            }
            Shape::Composer => {
                let tools = capability_tools(&self.value);
                let tool_of = |bubble: &Json| tools.get(text_of(bubble, &["bubbleId"])?);
                bubbles.iter().map(|bubble| decode_bubble(bubble, tool_of(bubble))).collect()
            }
            Shape::Session => decode_requests(bubbles).0,
            Shape::Prompts => decode_prompts(&self.value),
            Shape::Damaged => {
                let left = self.value.as_str().unwrap_or_default();
                vec![Message::new(Role::Unknown, vec![Part::damaged(left.as_bytes())])]
            }
        }
    }

    /// The JSON that holds each of [`Self::messages`].
    pub(super) fn pieces(&self) -> Vec<Cow<'_, Json>> {
        let bubbles = items(&self.value[self.shape.messages_field()]);
        match self.shape {
            Shape::Chat | Shape::Composer => bubbles.iter().map(Cow::Borrowed).collect(),
            Shape::Session => pieces_of_requests(bubbles),
            Shape::Prompts => pieces_of_prompts(&self.value),
            Shape::Damaged => vec![Cow::Borrowed(&self.value)],
        }
    }

    /// The rest of the conversation's JSON.
    pub(super) fn frame(&self) -> Json {
        match (self.shape, &self.value) {
            (Shape::Prompts | Shape::Damaged, _) => Json::Null,
            (shape, Json::Object(fields)) => {
                let field = shape.messages_field();
                let kept = fields.iter().filter(|(name, _)| *name != field);
                Json::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
            _ => Json::Null,
        }
    }

    /// Numbers the turns of the messages, and returns the turns.
    pub(super) fn turns(&self, messages: &mut [Message]) -> Vec<Turn> {
        let mut turns: Vec<Turn> = Vec::new();
        let mut endings = match self.shape {
            Shape::Session => decode_requests(items(&self.value["requests"])).1.into_iter(),
            Shape::Chat | Shape::Composer | Shape::Prompts | Shape::Damaged => {
                Vec::new().into_iter()
            }
        };
        for message in messages {
            if message.role == Role::User || turns.is_empty() {
                let ending = endings.next().unwrap_or_default();
                turns.push(Turn { started: message.at, ..ending });
            }
            message.turn = Some(turns.len() - 1);
            if let Some(turn) = turns.last_mut() {
                turn.model = turn.model.take().or_else(|| message.model.clone());
            }
        }
        turns
    }

    /// Fills in the head. `changed` is the time when the database last changed.
    pub(super) fn describe(&self, head: &mut Head, messages: &[Message], changed: Option<Moment>) {
        let value = &self.value;
        let first_prompt = || {
            let prompt = messages.iter().find(|message| message.role == Role::User)?;
            title_of(&prompt.text())
        };
        let title = match self.shape {
            Shape::Prompts => Some("Prompts".to_owned()),
            Shape::Damaged => Some(format!("Damaged row {}", self.id)),
            _ => text_of(value, &["chatTitle", "name", "customTitle", "title"]).map(str::to_owned),
        };
        head.title = title.or_else(first_prompt);
        let times = || messages.iter().filter_map(|message| message.at);
        let time_of = |names: &[&str]| names.iter().find_map(|name| moment(&value[name]));
        head.created = time_of(&["createdAt", "creationDate"])
            .or_else(|| times().min_by_key(|at| at.at_ms).filter(|_| self.shape != Shape::Chat));
        head.updated = time_of(&["lastUpdatedAt", "lastMessageDate", "lastSendTime"])
            .or_else(|| times().max_by_key(|at| at.at_ms))
            .or(changed);
        head.mode = match self.shape {
            Shape::Chat | Shape::Session => Some("chat".to_owned()),
            Shape::Composer => text_of(value, &["unifiedMode", "forceMode"]).map(str::to_owned),
            Shape::Prompts | Shape::Damaged => None,
        };
        if self.shape == Shape::Damaged {
            head.activity = Activity::Damaged;
        }
        for message in messages {
            head.add_model(message.model.as_deref().unwrap_or_default());
        }
        head.n_messages = Some(messages.len() as u64);
        head.shelf = if messages.is_empty() {
            Shelf::Empty
        } else if value["isArchived"] == json!(true) {
            Shelf::Archived
        } else {
            Shelf::Shown
        };
    }
}
