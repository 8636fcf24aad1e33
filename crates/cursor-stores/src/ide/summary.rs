//! What a list needs to know of a conversation, taken from a `composerData` or from a head of one without reading the
//! rest: those are most of what a list has to go through.

use serde::Deserialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::agent_state::{inline_root, says_something};
use super::bubble::mode_name;
use super::lenient::{is_true, parse, text, text_of, texts, time, tokens};
use crate::editor_text::text_of_editor;
use crate::lenient_json;
use crate::model::{Parent, TokenUsage, Workspace};
use crate::workspace_json::{workspace_of_json, workspace_of_uri};

/// A conversation as a `composerData`, or a head of one, describes it.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Summary {
    pub(super) id: Option<String>,
    pub(super) title: Option<String>,
    pub(super) created: Option<i64>,
    /// When its last message was made.
    pub(super) last_message: Option<i64>,
    pub(super) checkpoint_updated: Option<i64>,
    pub(super) last_updated: Option<i64>,
    /// `None` if this does not hold messages.
    pub(super) n_messages: Option<u64>,
    /// There is more than the messages that were counted: a state of the agent, a summary.
    pub(super) is_count_estimated: bool,
    /// Text that was typed and not sent.
    pub(super) has_unsent: bool,
    /// It has no messages, but the state of its agent has.
    pub(super) has_state: bool,
    pub(super) status: Option<String>,
    pub(super) is_generating: bool,
    pub(super) waits_for_user: bool,
    pub(super) is_archived: bool,
    pub(super) is_draft: bool,
    pub(super) mode: Option<String>,
    pub(super) model: Option<String>,
    pub(super) tokens: Option<TokenUsage>,
    pub(super) workspace: Option<Workspace>,
    /// The name of a directory below `workspaceStorage`, or of nothing.
    pub(super) workspace_id: Option<String>,
    pub(super) repository: Option<Workspace>,
    pub(super) subagents: Vec<String>,
    pub(super) parent: Option<Parent>,
    pub(super) is_subagent: bool,
}

/// Every field that is looked at, as it stands there: so that one of a wrong type spoils no other.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields<'a> {
    #[serde(borrow)]
    composer_id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    rich_text: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    last_updated_at: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation_checkpoint_last_updated_at: Option<&'a RawValue>,
    #[serde(borrow)]
    full_conversation_headers_only: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation_map: Option<&'a RawValue>,
    #[serde(borrow)]
    tabs: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation_state: Option<&'a RawValue>,
    latest_conversation_summary: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    generating_bubble_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    has_blocking_pending_actions: Option<&'a RawValue>,
    #[serde(borrow)]
    is_archived: Option<&'a RawValue>,
    #[serde(borrow)]
    is_draft: Option<&'a RawValue>,
    #[serde(borrow)]
    unified_mode: Option<&'a RawValue>,
    #[serde(borrow)]
    force_mode: Option<&'a RawValue>,
    #[serde(borrow)]
    model_config: Option<&'a RawValue>,
    #[serde(borrow)]
    context_tokens_used: Option<&'a RawValue>,
    #[serde(borrow)]
    context_token_limit: Option<&'a RawValue>,
    #[serde(borrow)]
    context_tokens_limit: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_token_breakdown: Option<&'a RawValue>,
    #[serde(borrow)]
    workspace_identifier: Option<&'a RawValue>,
    #[serde(borrow)]
    tracked_git_repos: Option<&'a RawValue>,
    #[serde(borrow)]
    git_worktree: Option<&'a RawValue>,
    #[serde(borrow)]
    subagent_composer_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    sub_composer_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    subagent_info: Option<&'a RawValue>,
    #[serde(borrow)]
    is_subagent: Option<&'a RawValue>,
    #[serde(borrow)]
    glass_meta_parent_agent: Option<&'a RawValue>,
}

/// A message in a list of messages, of which only the last one's time is read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MessageFields<'a> {
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
}

/// Reads a summary; `None` if the bytes are no JSON object.
pub(super) fn summarise(bytes: &[u8]) -> Option<Summary> {
    // An array would do as the fields in their order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    match serde_json::from_slice::<Fields<'_>>(bytes) {
        Ok(fields) => Some(summary_of(&fields)),
        Err(_) => {
            // A field that is there twice, or text that is not quite UTF-8.
            let json = parse(bytes).filter(Json::is_object)?.to_string();
            serde_json::from_str::<Fields<'_>>(&json).ok().map(|fields| summary_of(&fields))
        }
    }
}

fn summary_of(fields: &Fields<'_>) -> Summary {
    let (n_headers, last_header) = messages(fields.full_conversation_headers_only);
    let (n_inline, last_inline) = messages(fields.conversation);
    let n_in_map = n_mapped(&json(fields.conversation_map));
    let n_in_tabs = n_mapped(&json(fields.tabs));
    let holds_messages = fields.full_conversation_headers_only.is_some()
        || fields.conversation.is_some()
        || fields.conversation_map.is_some()
        || n_in_tabs > 0;
    let n_messages = n_headers.max(n_inline).max(n_in_map).max(n_in_tabs);
    let identifier = json(fields.workspace_identifier);
    let parent = parent(&json(fields.subagent_info), &json(fields.glass_meta_parent_agent));
    let mut subagents = texts(&json(fields.subagent_composer_ids));
    for id in texts(&json(fields.sub_composer_ids)) {
        if !subagents.contains(&id) {
            subagents.push(id);
        }
    }
    Summary {
        id: owned_text(fields.composer_id),
        title: owned_text(fields.name),
        created: time(&json(fields.created_at)),
        last_message: last_header.or(last_inline),
        checkpoint_updated: time(&json(fields.conversation_checkpoint_last_updated_at)),
        last_updated: time(&json(fields.last_updated_at)),
        n_messages: holds_messages.then_some(n_messages),
        is_count_estimated: [n_headers, n_inline, n_in_map, n_in_tabs]
            .into_iter()
            .filter(|count| *count > 0)
            .count()
            > 1
            || fields.latest_conversation_summary.is_some()
            || text(&json(fields.conversation_state)).is_some_and(|state| state.len() > 1),
        has_unsent: has_unsent(fields),
        has_state: n_messages == 0 && has_state(fields),
        status: owned_text(fields.status),
        is_generating: json(fields.generating_bubble_ids)
            .as_array()
            .is_some_and(|ids| !ids.is_empty()),
        waits_for_user: is_true(&json(fields.has_blocking_pending_actions)),
        is_archived: is_true(&json(fields.is_archived)),
        is_draft: is_true(&json(fields.is_draft)),
        mode: mode_name(&json(fields.unified_mode)).or_else(|| mode_name(&json(fields.force_mode))),
        model: text(&json(fields.model_config)["modelName"])
            .filter(|model| *model != "default")
            .map(str::to_owned),
        tokens: token_usage(fields),
        workspace: workspace_of_json(&identifier["uri"])
            .or_else(|| workspace_of_json(&identifier["configPath"])),
        workspace_id: text(&identifier["id"]).map(str::to_owned),
        repository: repository(fields),
        subagents,
        is_subagent: parent.is_some() || is_true(&json(fields.is_subagent)),
        parent,
    }
}

fn json(raw: Option<&RawValue>) -> Json {
    raw.and_then(|raw| lenient_json::parse(raw.get().as_bytes()).ok()).unwrap_or_default()
}

fn owned_text(raw: Option<&RawValue>) -> Option<String> {
    text(&json(raw)).map(str::to_owned)
}

/// How many there are, and when the last one was made.
fn messages(raw: Option<&RawValue>) -> (u64, Option<i64>) {
    let Some(raw) = raw else { return (0, None) };
    match serde_json::from_str::<Vec<MessageFields<'_>>>(raw.get()) {
        Ok(messages) => {
            let last = messages.iter().rev().find_map(|message| time(&json(message.created_at)));
            (messages.len() as u64, last)
        }
        // Not all of them are objects.
        Err(_) => {
            let messages = json(Some(raw));
            let messages =
                super::lenient::items(&messages).iter().filter(|message| message.is_object());
            (messages.count() as u64, None)
        }
    }
}

/// The bubbles of `conversationMap` or of `tabs`.
fn n_mapped(map: &Json) -> u64 {
    super::inline::bubbles_of_map(map).count() as u64
}

fn has_unsent(fields: &Fields<'_>) -> bool {
    let has_text = |raw: Option<&RawValue>| {
        raw.is_some_and(|raw| {
            raw.get().len() > 2 && !text_of_editor(&json(Some(raw))).trim().is_empty()
        })
    };
    has_text(fields.text) || has_text(fields.rich_text)
}

fn has_state(fields: &Fields<'_>) -> bool {
    text(&json(fields.conversation_state))
        .and_then(inline_root)
        .is_some_and(|root| says_something(&root))
}

fn token_usage(fields: &Fields<'_>) -> Option<TokenUsage> {
    let used = tokens(&json(fields.context_tokens_used))
        .or_else(|| tokens(&json(fields.prompt_token_breakdown)["totalUsedTokens"]));
    let limit = tokens(&json(fields.context_token_limit))
        .or_else(|| tokens(&json(fields.context_tokens_limit)))
        .or_else(|| tokens(&json(fields.prompt_token_breakdown)["maxTokens"]));
    // How large the window is says nothing of how much of it was used.
    used.map(|used| TokenUsage {
        context_used: Some(used),
        context_limit: limit,
        ..TokenUsage::default()
    })
}

fn repository(fields: &Fields<'_>) -> Option<Workspace> {
    let repositories = json(fields.tracked_git_repos);
    let of_repository = text(&repositories[0]["repoPath"]).and_then(workspace_of_uri);
    of_repository.or_else(|| {
        let worktree = json(fields.git_worktree);
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
