//! The JSON that the IDE writes, including empty fields.

use serde_json::{Value as Json, json};

/// A composer that refers to its bubbles. `version` is its `_v`.
pub fn composer(id: &str, version: u32, headers: &[Json]) -> Json {
    json!({
        "_v": version, "composerId": id, "richText": "", "hasLoaded": true, "text": "",
        "fullConversationHeadersOnly": headers, "conversationMap": {}, "status": "completed",
        "context": empty_context(), "gitGraphFileSuggestions": [], "generatingBubbleIds": [],
        "isReadingLongFile": false, "codeBlockData": {}, "originalFileStates": {}, "newlyCreatedFiles": [],
        "newlyCreatedFolders": [], "hasChangedContext": false,
        "capabilities": [{"type": 15, "data": {"bubbleDataMap": "{}"}}, {"type": 22, "data": {}}],
        "name": "", "createdAt": 1_790_000_000_000_i64, "unifiedMode": "agent", "forceMode": "edit",
        "usageData": {}, "tabs": [{"type": "composer"}], "selectedTabIndex": 0,
        "modelConfig": {"modelName": "default", "maxMode": false}, "subComposerIds": [], "subagentComposerIds": [],
        "todos": [], "isArchived": false, "isDraft": false, "isNAL": version >= 14, "conversationState": "~",
    })
}

/// A composer that contains its bubbles, like the oldest ones.
pub fn inline_composer(id: &str, bubbles: &[Json]) -> Json {
    json!({
        "composerId": id, "richText": "", "text": "", "conversation": bubbles, "status": "completed",
        "context": empty_context(), "codeBlockData": {}, "capabilities": [], "name": "",
        "createdAt": 1_730_000_000_000_i64, "lastUpdatedAt": 1_730_000_600_000_i64, "unifiedMode": "chat",
    })
}

/// A bubble's entry in its composer's list.
pub fn header(bubble: &Json) -> Json {
    json!({"bubbleId": bubble["bubbleId"], "type": bubble["type"], "createdAt": bubble["createdAt"],
           "grouping": {"isRenderable": true, "hasText": true}})
}

/// A prompt.
pub fn user_bubble(id: &str, text: &str) -> Json {
    let mut bubble = bubble(id, 1);
    bubble["text"] = json!(text);
    bubble["richText"] = json!(lexical(text).to_string());
    bubble["context"] = empty_context();
    bubble
}

/// A reply.
pub fn assistant_bubble(id: &str, text: &str) -> Json {
    let mut bubble = bubble(id, 2);
    bubble["text"] = json!(text);
    bubble
}

/// A thought.
pub fn thinking_bubble(id: &str, text: &str) -> Json {
    let mut bubble = bubble(id, 2);
    bubble["thinking"] = json!({"text": text, "signature": "c2lnbmF0dXJl"});
    bubble["thinkingDurationMs"] = json!(1500);
    bubble
}

/// A tool call with its result, both as JSON in strings.
pub fn tool_bubble(id: &str, call_id: &str, name: &str, args: &Json, result: &Json) -> Json {
    let mut bubble = bubble(id, 2);
    bubble["capabilityType"] = json!(15);
    bubble["toolFormerData"] = json!({
        "tool": 15, "toolIndex": 0, "modelCallId": "", "toolCallId": call_id, "status": "completed", "name": name,
        "rawArgs": args.to_string(), "params": args.to_string(), "result": result.to_string(),
        "additionalData": {"status": "success"},
    });
    bubble
}

/// The lists that every bubble has.
const EMPTY_LISTS: &str = "approximateLintErrors lints codebaseContextChunks commits pullRequests attachedCodeChunks \
    assistantSuggestedDiffs gitDiffs interpreterResults images attachedFolders attachedFoldersNew \
    userResponsesToSuggestedCodeBlocks suggestedCodeBlocks diffsForCompressingFiles relevantFiles \
    toolResults notepads capabilities multiFileLinterErrors diffHistories recentLocationsHistory \
    recentlyViewedFiles fileDiffTrajectories docsReferences webReferences aiWebSearchResults \
    attachedFoldersListDirResults humanChanges summarizedComposers cursorRules contextPieces \
    editTrailContexts allThinkingBlocks diffsSinceLastApply deletedFiles attachedFileCodeChunksUris \
    consoleLogs uiElementPicked knowledgeItems documentationSelections externalLinks projectLayouts \
    capabilityContexts todos workspaceUris";

/// The fields that every bubble has.
fn bubble(id: &str, kind: u32) -> Json {
    let mut bubble = json!({
        "_v": 3, "type": kind, "bubbleId": id, "text": "", "isAgentic": true, "unifiedMode": 2, "requestId": "",
        "tokenCount": {"inputTokens": 0, "outputTokens": 0}, "isRefunded": false, "useWeb": false,
        "supportedTools": [1, 41, 7], "createdAt": null,
    });
    for field in EMPTY_LISTS.split_whitespace() {
        bubble[field] = json!([]);
    }
    bubble
}

/// The lists that every context has.
const CONTEXT_LISTS: &str = "composers quotes selectedCommits selectedPullRequests selectedImages folderSelections fileSelections \
    selections terminalSelections selectedDocs externalLinks cursorRules uiElementSelections";

fn empty_context() -> Json {
    let mut context = json!({"mentions": {}});
    for list in CONTEXT_LISTS.split_whitespace() {
        context[list] = json!([]);
        context["mentions"][list] = json!({});
    }
    context
}

/// The state of the editor that holds `text`.
pub fn lexical(text: &str) -> Json {
    let paragraphs: Vec<Json> = text
        .lines()
        .map(|line| {
            json!({"type": "paragraph", "version": 1, "format": "", "indent": 0, "direction": "ltr",
                   "children": [{"type": "text", "text": line, "version": 1, "mode": "normal", "format": 0}]})
        })
        .collect();
    json!({"root": {"type": "root", "version": 1, "format": "", "indent": 0, "children": paragraphs}})
}

/// A message of the model's prompt.
pub fn agent_message(role: &str, content: &Json, request_id: Option<&str>) -> Json {
    let mut message = json!({"role": role, "content": content});
    if let Some(request_id) = request_id {
        message["providerOptions"] = json!({"cursor": {"requestId": request_id}});
    }
    message
}
