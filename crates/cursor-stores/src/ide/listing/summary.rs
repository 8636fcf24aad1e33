//! The facts for a list, from a `composerData` or a catalogue entry. Skips the rest, which is most of the data.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::ide::agent::{inline_root, says_something};
use crate::ide::conversation::bubble::mode_name;
use crate::ide::lenient::{is_true, items, parse, text, text_of, texts, time, tokens};
use crate::lenient_json;
use crate::model::{Parent, TokenUsage, Workspace};
use crate::text::editor_text::text_of_editor;
use crate::workspace_json::{workspace_of_json, workspace_of_uri};

/// A conversation, as its `composerData` or a catalogue entry describes it.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Summary {
    pub(crate) id: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) created: Option<i64>,
    /// The time of its last message.
    pub(crate) last_message: Option<i64>,
    pub(crate) checkpoint_updated: Option<i64>,
    pub(crate) last_updated: Option<i64>,
    /// `None` if the source contains no messages.
    pub(crate) n_messages: Option<u64>,
    /// The source may contain more messages than were counted, in an agent's state or a summary.
    pub(crate) is_count_estimated: bool,
    /// The user typed text but did not send it.
    pub(crate) has_unsent: bool,
    /// The conversation has no messages, but the agent's state does.
    pub(crate) has_state: bool,
    pub(crate) status: Option<String>,
    pub(crate) is_generating: bool,
    pub(crate) waits_for_user: bool,
    pub(crate) is_archived: bool,
    pub(crate) is_draft: bool,
    pub(crate) mode: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) tokens: Option<TokenUsage>,
    pub(crate) workspace: Option<Workspace>,
    /// The name of a directory below `workspaceStorage`. The directory may not exist.
    pub(crate) workspace_id: Option<String>,
    pub(crate) repository: Option<Workspace>,
    pub(crate) subagents: Vec<String>,
    pub(crate) parent: Option<Parent>,
    pub(crate) is_subagent: bool,
}

/// The fields, unparsed, so that a field of the wrong type does not affect the others.
struct Fields<'a>(HashMap<&'a str, &'a RawValue>);

impl<'a> Fields<'a> {
    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied().filter(|raw| raw.get() != "null")
    }

    fn json(&self, name: &str) -> Json {
        self.raw(name).map(json).unwrap_or_default()
    }

    fn text(&self, name: &str) -> Option<String> {
        text(&self.json(name)).map(str::to_owned)
    }

    fn is_true(&self, name: &str) -> bool {
        is_true(&self.json(name))
    }

    fn time(&self, name: &str) -> Option<i64> {
        time(&self.json(name))
    }

    fn tokens(&self, name: &str) -> Option<u64> {
        tokens(&self.json(name))
    }
}

/// A message in a list of messages. Only the time of the last one is read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MessageFields<'a> {
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
}

/// Reads a summary. `None` if the bytes are not a JSON object.
pub(crate) fn summarise(bytes: &[u8]) -> Option<Summary> {
    match serde_json::from_slice(bytes) {
        Ok(fields) => Some(summary_of(&Fields(fields))),
        Err(_) => {
            // The text is not valid UTF-8, or a name is escaped.
            let json = parse(bytes).filter(Json::is_object)?.to_string();
            serde_json::from_str(&json).ok().map(|fields| summary_of(&Fields(fields)))
        }
    }
}

fn summary_of(fields: &Fields<'_>) -> Summary {
    let (n_headers, last_header) = messages(fields.raw("fullConversationHeadersOnly"));
    let (n_inline, last_inline) = messages(fields.raw("conversation"));
    let n_in_map = n_mapped(&fields.json("conversationMap"));
    let n_in_tabs = n_mapped(&fields.json("tabs"));
    let holds_messages = ["fullConversationHeadersOnly", "conversation", "conversationMap"]
        .iter()
        .any(|name| fields.raw(name).is_some())
        || n_in_tabs > 0;
    let counts = [n_headers, n_inline, n_in_map, n_in_tabs];
    let n_messages = counts.into_iter().max().unwrap_or_default();
    let has_several_lists = counts.iter().filter(|count| **count > 0).count() > 1;
    let state = fields.text("conversationState").filter(|state| state.len() > 1);
    let says_something = |state: &String| inline_root(state).is_some_and(|it| says_something(&it));
    let identifier = fields.json("workspaceIdentifier");
    let parent = parent(&fields.json("subagentInfo"), &fields.json("glassMetaParentAgent"));
    let mut subagents = texts(&fields.json("subagentComposerIds"));
    for id in texts(&fields.json("subComposerIds")) {
        if !subagents.contains(&id) {
            subagents.push(id);
        }
    }
    Summary {
        id: fields.text("composerId"),
        title: fields.text("name"),
        created: fields.time("createdAt"),
        last_message: last_header.or(last_inline),
        checkpoint_updated: fields.time("conversationCheckpointLastUpdatedAt"),
        last_updated: fields.time("lastUpdatedAt"),
        n_messages: holds_messages.then_some(n_messages),
        is_count_estimated: has_several_lists
            || fields.raw("latestConversationSummary").is_some()
            || state.is_some(),
        has_unsent: has_unsent(fields),
        has_state: n_messages == 0 && state.as_ref().is_some_and(says_something),
        status: fields.text("status"),
        is_generating: !items(&fields.json("generatingBubbleIds")).is_empty(),
        waits_for_user: fields.is_true("hasBlockingPendingActions"),
        is_archived: fields.is_true("isArchived"),
        is_draft: fields.is_true("isDraft"),
        mode: mode_name(&fields.json("unifiedMode"))
            .or_else(|| mode_name(&fields.json("forceMode"))),
        model: text(&fields.json("modelConfig")["modelName"])
            .filter(|model| *model != "default")
            .map(str::to_owned),
        tokens: token_usage(fields),
        workspace: workspace_of_json(&identifier["uri"])
            .or_else(|| workspace_of_json(&identifier["configPath"])),
        workspace_id: text(&identifier["id"]).map(str::to_owned),
        repository: repository(fields),
        subagents,
        is_subagent: parent.is_some() || fields.is_true("isSubagent"),
        parent,
    }
}

fn json(raw: &RawValue) -> Json {
    lenient_json::parse(raw.get().as_bytes()).unwrap_or_default()
}

/// The number of messages, and the time of the last one.
fn messages(raw: Option<&RawValue>) -> (u64, Option<i64>) {
    let Some(raw) = raw else { return (0, None) };
    match serde_json::from_str::<Vec<MessageFields<'_>>>(raw.get()) {
        Ok(messages) => {
            let last = messages.iter().rev().find_map(|message| time(&json(message.created_at?)));
            (messages.len() as u64, last)
        }
        // Some messages are not objects.
        Err(_) => {
            let messages = json(raw);
            (items(&messages).iter().filter(|message| message.is_object()).count() as u64, None)
        }
    }
}

/// The number of bubbles in `conversationMap` or `tabs`.
fn n_mapped(map: &Json) -> u64 {
    crate::ide::conversation::composer::bubbles_of_map(map).count() as u64
}

fn has_unsent(fields: &Fields<'_>) -> bool {
    ["text", "richText"]
        .iter()
        .filter_map(|name| fields.raw(name))
        .any(|raw| raw.get().len() > 2 && !text_of_editor(&json(raw)).trim().is_empty())
}

fn token_usage(fields: &Fields<'_>) -> Option<TokenUsage> {
    let breakdown = fields.json("promptTokenBreakdown");
    let used = fields.tokens("contextTokensUsed").or_else(|| tokens(&breakdown["totalUsedTokens"]));
    let limit = fields
        .tokens("contextTokenLimit")
        .or_else(|| fields.tokens("contextTokensLimit"))
        .or_else(|| tokens(&breakdown["maxTokens"]));
    // The size of the context window alone says nothing about its use.
    used.map(|used| TokenUsage {
        context_used: Some(used),
        context_limit: limit,
        ..TokenUsage::default()
    })
}

fn repository(fields: &Fields<'_>) -> Option<Workspace> {
    let of_repository =
        text(&fields.json("trackedGitRepos")[0]["repoPath"]).and_then(workspace_of_uri);
    of_repository.or_else(|| {
        let worktree = fields.json("gitWorktree");
        text_of(&worktree, &["worktreePath", "path"]).and_then(workspace_of_uri)
    })
}

fn parent(subagent: &Json, meta: &Json) -> Option<Parent> {
    let id = text_of(subagent, &["parentComposerId", "parentAgentId", "parentConversationId"])
        .or_else(|| text(meta))
        .or_else(|| text_of(meta, &["composerId", "parentComposerId", "id"]))?;
    Some(Parent {
        id: id.to_owned(),
        tool_call_id: text(&subagent["toolCallId"]).map(str::to_owned),
        type_name: text_of(subagent, &["subagentTypeName", "typeName", "subagentType"])
            .map(str::to_owned),
    })
}
