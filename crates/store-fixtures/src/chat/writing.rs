//! Writes a chat from its first prompt to its last root, in the same order as Cursor.

use std::path::{Path, PathBuf};

use cursor_stores::chat::schema::{
    AgentConversationTurnStructure, AgentMode, AssistantMessage, ConversationPlan,
    ConversationStateStructure, ConversationStep, ConversationSummary, ConversationSummaryArchive,
    ConversationTokenDetails, ConversationTurnStructure, FileState, FileStateStructure,
    OpaqueToolCall, ShellArgs, ShellCommand, ShellConversationTurnStructure, ShellOutcome,
    ShellOutput, ShellResult, ShellSuccess, ShellToolCall, Step as StoredStep, StepTiming,
    TaskArgs, TaskOutcome, TaskResult, TaskSuccess, TaskToolCall, ThinkingMessage, TodoItem, Tool,
    ToolCall, Turn as StoredTurn, UserMessage,
};
use prost::Message;

use super::store_writer::StoreWriter;
use super::{Call, Chat, Generation, Outcome, Roots, Step, Todo, Turn, json};
use crate::Closing;

const MINUTE_MS: u64 = 60_000;

impl Chat {
    pub(super) fn write_into(&self, directory: &Path, closing: Closing) -> PathBuf {
        let mut writing = Writing::new(self, directory);
        for turn in &self.turns {
            writing.turn(turn);
        }
        writing.finish();
        writing.store.close(closing);
        let has_meta_file = matches!(self.generation, Generation::Jul2026 | Generation::Sep2026);
        if has_meta_file && self.subagent_of.is_none() {
            let meta = serde_json::json!({
                "schemaVersion": 1,
                "createdAtMs": self.created_ms,
                "hasConversation": true,
                "updatedAtMs": self.updated_ms(),
                "cwd": self.workspace,
                "title": self.name,
            });
            std::fs::write(directory.join("meta.json"), meta.to_string()).unwrap();
        }
        directory.to_owned()
    }
}

struct Writing<'a> {
    chat: &'a Chat,
    store: StoreWriter,
    root: ConversationStateStructure,
    n_turns: usize,
    n_messages: usize,
    now_ms: u64,
}

impl<'a> Writing<'a> {
    fn new(chat: &'a Chat, directory: &Path) -> Self {
        let mut store = StoreWriter::create(directory, &chat.id, chat.created_ms);
        store.set_meta("name", chat.name.as_str());
        if chat.generation != Generation::Aug2025 {
            store.set_meta("lastUsedModel", chat.model.as_str());
        }
        if matches!(chat.generation, Generation::Jul2026 | Generation::Sep2026) {
            store.set_meta("isRunEverything", true);
            store.set_meta("approvalMode", "allowlist");
            store.set_meta("blobEncryptionKey", "5ec2e7".repeat(10) + "5ec2");
        }
        if let Some((parent, call, type_name)) = &chat.subagent_of {
            store.set_meta(
                "subagentInfo",
                serde_json::json!({ "parentAgentId": parent, "rootParentAgentId": parent, "toolCallId": call, "typeName": type_name }),
            );
        }
        let mut root = ConversationStateStructure::decode(chat.more.as_slice()).unwrap();
        root.root_prompt_messages_json.push(store.put_json(&json::system()));
        if chat.generation != Generation::Aug2025 {
            root.root_prompt_messages_json.push(store.put_json(&json::user_info(&chat.workspace)));
        }
        let now_ms = u64::try_from(chat.created_ms).unwrap();
        Self { chat, store, root, n_turns: 0, n_messages: 0, now_ms }
    }

    fn is_dated(&self) -> bool {
        self.chat.generation == Generation::Sep2026
    }

    fn turn(&mut self, turn: &Turn) {
        self.compact_if_due();
        match turn {
            Turn::Agent { prompt, steps } => self.agent_turn(prompt, steps),
            Turn::Shell { command, stdout, stderr, exit_code } => {
                let shell_command =
                    self.store.put_message(&ShellCommand { command: command.clone() });
                let (stdout, stderr, exit_code) = (stdout.clone(), stderr.clone(), *exit_code);
                let shell_output =
                    self.store.put_message(&ShellOutput { stdout, stderr, exit_code });
                let turn = StoredTurn::ShellConversationTurn(ShellConversationTurnStructure {
                    shell_command,
                    shell_output,
                });
                self.root
                    .turns
                    .push(self.store.put_message(&ConversationTurnStructure { turn: Some(turn) }));
                self.checkpoint();
            }
        }
        self.n_turns += 1;
    }

    fn agent_turn(&mut self, prompt: &str, steps: &[Step]) {
        let request_id = format!("request-{}-{}", self.chat.id, self.n_turns);
        let before = self.store.put_message(&self.root);
        let user_message = UserMessage {
            text: prompt.to_owned(),
            message_id: format!("user-{}", self.n_turns),
            mode: AgentMode::Agent.into(),
            conversation_state_blob_id: if self.chat.generation == Generation::Aug2025 {
                Vec::new()
            } else {
                before
            },
            started_at_ms: self.is_dated().then_some(self.now_ms),
            ..UserMessage::default()
        };
        let mut structure = AgentConversationTurnStructure {
            user_message: self.store.put_message(&user_message),
            request_id: (self.chat.generation != Generation::Aug2025).then(|| request_id.clone()),
            routed_model_display_name: self.is_dated().then(|| "Claude 4.5 Sonnet".to_owned()),
            ..AgentConversationTurnStructure::default()
        };
        let started_ms = self.now_ms;
        self.add_prompt_message(&json::prompt(self.chat, prompt, &request_id));
        let mut is_in_root = false;
        for answer in answers(steps) {
            self.answer(answer, &mut structure, &mut is_in_root);
        }
        if steps.is_empty() {
            self.put_turn(&structure, &mut is_in_root);
        }
        if self.is_dated() {
            let timing =
                StepTiming { duration_ms: self.now_ms - started_ms, timestamp_ms: self.now_ms };
            self.root.turn_timings.push(timing);
        }
        self.checkpoint();
    }

    /// The texts before the tools run, and the results of the tools.
    fn answer(
        &mut self,
        steps: &[Step],
        structure: &mut AgentConversationTurnStructure,
        is_in_root: &mut bool,
    ) {
        let (said, calls): (Vec<&Step>, Vec<&Step>) =
            steps.iter().partition(|step| !matches!(step, Step::Call(_)));
        for step in said {
            structure.steps.push(self.put_step(step));
        }
        self.put_turn(structure, is_in_root);
        let pending =
            json::pending(self.chat, steps, self.n_messages, i64::try_from(self.now_ms).unwrap());
        self.root.pending_tool_calls = vec![pending.to_string()];
        self.checkpoint();
        self.add_prompt_message(&json::assistant(self.chat, steps, self.n_messages));
        for step in calls {
            if let Step::Call(call) = step
                && let Some(outcome) = &call.result
            {
                self.add_prompt_message(&json::tool_result(call, outcome));
            }
            structure.steps.push(self.put_step(step));
        }
        self.put_turn(structure, is_in_root);
        self.root.pending_tool_calls.clear();
        self.checkpoint();
    }

    fn add_prompt_message(&mut self, message: &serde_json::Value) {
        self.n_messages += 1;
        self.now_ms += MINUTE_MS;
        self.root.root_prompt_messages_json.push(self.store.put_json(message));
    }

    fn put_step(&mut self, step: &Step) -> Vec<u8> {
        let started_at_ms = self.is_dated().then_some(self.now_ms);
        let completed_at_ms = started_at_ms.map(|at_ms| at_ms + 1_500);
        let step = match step {
            Step::Text(text) => StoredStep::AssistantMessage(AssistantMessage {
                text: text.clone(),
                started_at_ms,
                completed_at_ms,
            }),
            Step::Thinking(text) => StoredStep::ThinkingMessage(ThinkingMessage {
                text: text.clone(),
                duration_ms: if self.chat.generation == Generation::Aug2025 { 0 } else { 1_200 },
                started_at_ms,
                completed_at_ms,
            }),
            Step::Call(call) => StoredStep::ToolCall(Box::new(ToolCall {
                started_at_ms,
                completed_at_ms,
                ..stored_call(call)
            })),
        };
        self.store.put_message(&ConversationStep { message: Some(step) })
    }

    /// Writes the next version of a turn in place of the one before.
    fn put_turn(&mut self, structure: &AgentConversationTurnStructure, is_in_root: &mut bool) {
        let is_old = self.chat.generation == Generation::Aug2025;
        let id = if is_old {
            self.store.put_message(structure)
        } else {
            let turn = Some(StoredTurn::AgentConversationTurn(structure.clone()));
            self.store.put_message(&ConversationTurnStructure { turn })
        };
        let turns = if is_old { &mut self.root.turns_old } else { &mut self.root.turns };
        if std::mem::replace(is_in_root, true) {
            turns.pop();
        }
        turns.push(id);
    }

    fn checkpoint(&mut self) {
        if self.chat.generation != Generation::Aug2025 {
            self.root.token_details = Some(ConversationTokenDetails {
                used_tokens: 12_799,
                max_tokens: 200_000,
                ..Default::default()
            });
            self.root.previous_workspace_uris =
                vec![format!("file://{}", self.chat.workspace.replace(' ', "%20"))];
            self.root.mode = Some(AgentMode::Agent.into());
        }
        if self.chat.roots == Roots::All {
            self.store.put_root(&self.root);
        }
    }

    /// Replaces the prompt with a summary, as `/summarize` does.
    fn compact_if_due(&mut self) {
        let Some((_, text)) =
            self.chat.compaction.as_ref().filter(|(after, _)| *after == self.n_turns)
        else {
            return;
        };
        let summary_message = self.store.put_json(&json::summary(text));
        let messages = std::mem::take(&mut self.root.root_prompt_messages_json);
        let kept = messages.last().cloned();
        let system = messages[0].clone();
        let archive = ConversationSummaryArchive {
            summarized_messages: messages,
            summary: text.clone(),
            window_tail: 1,
            summary_message: summary_message.clone(),
        };
        let archive = self.store.put_message(&archive);
        self.root.summary_archive = Some(archive.clone());
        self.root.summary_archives.push(archive);
        self.root.summary =
            Some(self.store.put_message(&ConversationSummary { summary: text.clone() }));
        self.root.self_summary_count += 1;
        self.root.root_prompt_messages_json =
            [Some(system), kept, Some(summary_message)].into_iter().flatten().collect();
        self.checkpoint();
    }

    /// Writes todos, plan and files, and then the last root.
    fn finish(&mut self) {
        self.compact_if_due();
        self.root.todos = self
            .chat
            .todos
            .iter()
            .enumerate()
            .map(|(index, (text, todo))| self.store.put_message(&todo_item(index, text, *todo)))
            .collect();
        self.root.plan = self
            .chat
            .plan
            .as_ref()
            .map(|plan| self.store.put_message(&ConversationPlan { plan: plan.clone() }));
        for (path, before, now) in &self.chat.files {
            let is_late = matches!(self.chat.generation, Generation::Jul2026 | Generation::Sep2026);
            if is_late {
                let content = Some(self.store.put(now.as_bytes()));
                let initial_content = Some(self.store.put(before.as_bytes()));
                self.root
                    .file_states_v2
                    .insert(path.clone(), FileStateStructure { content, initial_content });
            } else {
                let state =
                    FileState { content: Some(now.clone()), initial_content: Some(before.clone()) };
                self.root.file_states.insert(path.clone(), self.store.put_message(&state));
            }
        }
        if self.is_dated() {
            self.root.conversation_started_timestamp_ms =
                Some(u64::try_from(self.chat.created_ms).unwrap());
        }
        if !self.chat.pending.is_empty() {
            let started_ms = i64::try_from(self.now_ms).unwrap();
            let pending = json::pending(self.chat, &self.chat.pending, self.n_messages, started_ms);
            self.root.pending_tool_calls = vec![pending.to_string()];
        }
        self.checkpoint();
        self.store.put_root(&self.root);
    }
}

/// Groups steps into answers. Calls end an answer.
fn answers(steps: &[Step]) -> impl Iterator<Item = &[Step]> {
    let is_call = |step: &Step| matches!(step, Step::Call(_));
    steps.chunk_by(move |one, next| !is_call(one) || is_call(next))
}

fn stored_call(call: &Call) -> ToolCall {
    let text = |key: &str| call.args[key].as_str().unwrap_or_default().to_owned();
    let output = match &call.result {
        Some(Outcome::Success(output)) => {
            Some(output.as_str().map_or_else(|| output.to_string(), str::to_owned))
        }
        Some(Outcome::Error(text) | Outcome::Rejected(text)) => Some(text.clone()),
        None => None,
    };
    let tool = match call.tool.as_str() {
        "Shell" => Tool::Shell(ShellToolCall {
            args: Some(ShellArgs {
                command: text("command"),
                tool_call_id: call.id.clone(),
                ..ShellArgs::default()
            }),
            result: output.map(|stdout| ShellResult {
                result: Some(ShellOutcome::Success(ShellSuccess {
                    stdout,
                    execution_time: 4122,
                    ..ShellSuccess::default()
                })),
                ..ShellResult::default()
            }),
            description: None,
        }),
        "Task" => Tool::Task(TaskToolCall {
            args: Some(TaskArgs {
                description: text("description"),
                prompt: text("prompt"),
                ..TaskArgs::default()
            }),
            result: output.map(|text| TaskResult {
                result: Some(TaskOutcome::Success(TaskSuccess {
                    conversation_steps: vec![ConversationStep {
                        message: Some(StoredStep::AssistantMessage(AssistantMessage {
                            text,
                            ..AssistantMessage::default()
                        })),
                    }],
                    ..TaskSuccess::default()
                })),
            }),
        }),
        _ => Tool::Grep(OpaqueToolCall {
            args: Some(ShellCommand { command: call.args.to_string() }.encode_to_vec()),
            result: output.map(|command| ShellCommand { command }.encode_to_vec()),
        }),
    };
    ToolCall { tool: Some(tool), tool_call_id: Some(call.id.clone()), ..ToolCall::default() }
}

fn todo_item(index: usize, text: &str, todo: Todo) -> TodoItem {
    TodoItem {
        id: format!("todo-{index}"),
        content: text.to_owned(),
        status: todo.into(),
        ..TodoItem::default()
    }
}
