//! Writes a turn, blob by blob, in the order of a real store.
//!
//! ```text
//!  begin_turn      prompt ─────────────────────────► no root yet
//!  model_step      steps, turn ────────────────────► root, answer pending (field 4)
//!  tools_finished  answer, results, steps, turn ───► root, both in the prompt (field 1)
//!  end_turn        step, turn, answer ─────────────► root, answer pending ──► root, in the prompt
//! ```

use cursor_stores::chat::WritableStore;
use cursor_stores::chat::schema::{
    AgentConversationTurnStructure, AssistantMessage, ConversationStep, ConversationTokenDetails,
    ConversationTurnStructure, Step, StepTiming, ThinkingMessage, Turn,
};
use ground::now_ms;
use prost::Message;
use serde_json::Value;
use uuid::Uuid;

use super::messages::{self, AssistantIdentity};
use super::records::{ToolCallRecord, ToolResultRecord};
use super::{CrashPoint, SessionError, SessionStore, side_state, signed, tool_steps};
use crate::tools::Generation;

/// The turn in progress.
pub(super) struct OpenTurn {
    prompt: String,
    structure: AgentConversationTurnStructure,
    /// True if the root's last turn is an earlier version of this one.
    is_in_root: bool,
    /// The answer that is waiting for its tools.
    answer: Option<Answer>,
    started_ms: u64,
    /// When the model last got something to answer.
    asked_ms: u64,
}

impl OpenTurn {
    pub(super) fn new(prompt: &str, structure: AgentConversationTurnStructure) -> Self {
        let started_ms = now_ms();
        Self {
            prompt: prompt.to_owned(),
            structure,
            is_in_root: false,
            answer: None,
            started_ms,
            asked_ms: started_ms,
        }
    }
}

struct Answer {
    pending: Value,
    calls: Vec<ToolCallRecord>,
    at_ms: u64,
}

/// The name of a new session.
const UNNAMED: &str = "New Agent";

/// The size of the context window, in tokens. The simulated agent writes it into its roots.
const MAX_TOKENS: u32 = 200_000;

impl SessionStore {
    /// Writes an answer of the model. It stays pending while its tool calls run.
    pub fn model_step(
        &mut self,
        thinking: Option<&str>,
        text: Option<&str>,
        calls: &[ToolCallRecord],
    ) -> Result<(), SessionError> {
        self.commit_open_answer()?;
        let answer = self.write_answer(thinking, text, calls)?;
        self.at(CrashPoint::AfterBlobsBeforeRoot);
        self.conversation.root.pending_tool_calls = vec![answer.pending.to_string()];
        self.checkpoint()?;
        self.open_turn()?.answer = Some(answer);
        if !calls.is_empty() {
            self.at(CrashPoint::MidTool);
        }
        Ok(())
    }

    /// Writes the results of the last answer's calls. A call without a result counts as interrupted.
    pub fn tools_finished(&mut self, results: &[ToolResultRecord]) -> Result<(), SessionError> {
        let answer = self.open_turn()?.answer.take().ok_or(SessionError::NoTurn)?;
        self.at(CrashPoint::AfterToolBeforeResult);
        self.commit_answer(&answer, results)?;
        self.at(CrashPoint::AfterResultBeforeCommit);
        self.conversation.root.pending_tool_calls.clear();
        self.count_tokens();
        self.checkpoint()
    }

    /// Writes the last answer and ends the turn. Not every turn ends with an answer: `text` may be empty.
    pub fn end_turn(&mut self, thinking: Option<&str>, text: &str) -> Result<(), SessionError> {
        if thinking.is_some() || !text.is_empty() {
            self.commit_open_answer()?;
            let answer =
                self.write_answer(thinking, Some(text).filter(|text| !text.is_empty()), &[])?;
            let id = self
                .database()?
                .put(messages::committed(&answer.pending).to_string().as_bytes())?;
            self.at(CrashPoint::AfterBlobsBeforeRoot);
            self.conversation.root.pending_tool_calls = vec![answer.pending.to_string()];
            self.checkpoint()?;
            self.at(CrashPoint::FinalPending);
            self.conversation.push(id, messages::committed(&answer.pending));
            self.conversation.root.pending_tool_calls.clear();
        } else {
            self.commit_open_answer()?;
        }
        let turn = self.turn.take().ok_or(SessionError::NoTurn)?;
        if self.is_dated() {
            let timestamp_ms = now_ms();
            let duration_ms = timestamp_ms.saturating_sub(turn.started_ms);
            self.conversation.root.turn_timings.push(StepTiming { duration_ms, timestamp_ms });
        }
        let title = title_of(&turn.prompt);
        if self.meta.name() == Some(UNNAMED) && !title.is_empty() {
            self.meta.set_name(&title);
        }
        self.count_tokens();
        self.checkpoint()?;
        self.at(CrashPoint::BetweenMetaAndMetaJson);
        self.touch_meta_file()
    }

    /// Writes the steps of an answer and the turn that now has them.
    fn write_answer(
        &mut self,
        thinking: Option<&str>,
        text: Option<&str>,
        calls: &[ToolCallRecord],
    ) -> Result<Answer, SessionError> {
        let at_ms = now_ms();
        let asked_ms = self.open_turn()?.asked_ms;
        let is_dated = self.is_dated();
        let dates = (is_dated.then_some(asked_ms), is_dated.then_some(at_ms));
        let thinking_step = thinking.map(|text| {
            Step::ThinkingMessage(ThinkingMessage {
                text: text.to_owned(),
                duration_ms: u32::try_from(at_ms.saturating_sub(asked_ms)).unwrap_or(u32::MAX),
                started_at_ms: dates.0,
                completed_at_ms: dates.1,
            })
        });
        let text_step = text.map(|text| {
            Step::AssistantMessage(AssistantMessage {
                text: text.to_owned(),
                started_at_ms: dates.0,
                completed_at_ms: dates.1,
            })
        });
        for step in [thinking_step, text_step].into_iter().flatten() {
            self.write_step(step)?;
        }
        self.write_turn()?;
        let provider_id = format!("msg_{}", Uuid::new_v4().simple());
        let identity = AssistantIdentity {
            message_id: if is_dated { &provider_id } else { "1" },
            is_provider_id: is_dated,
            model: &self.facts.model,
        };
        let pending = messages::pending_assistant(&identity, thinking, text, calls, at_ms);
        Ok(Answer { pending, calls: calls.to_vec(), at_ms })
    }

    fn commit_open_answer(&mut self) -> Result<(), SessionError> {
        if self.open_turn()?.answer.is_some() { self.tools_finished(&[]) } else { Ok(()) }
    }

    /// Writes an answer and the results of its calls as messages of the prompt, then the calls as steps of the turn.
    fn commit_answer(
        &mut self,
        answer: &Answer,
        results: &[ToolResultRecord],
    ) -> Result<(), SessionError> {
        self.add_message(messages::committed(&answer.pending))?;
        let finished_ms = now_ms();
        let after_ms = finished_ms.saturating_sub(answer.at_ms);
        let result_of =
            |call: &ToolCallRecord| results.iter().find(|result| result.call_id == call.call_id);
        for call in &answer.calls {
            self.add_message(match result_of(call) {
                Some(result) => messages::tool_result(&call.tool_name, result),
                None => messages::interrupted_result(&call.tool_name, &call.call_id, after_ms),
            })?;
        }
        for call in &answer.calls {
            let result = result_of(call).map_or(&Value::Null, |result| &result.result);
            let mut step = tool_steps::tool_call(call, result);
            if self.is_dated() {
                (step.started_at_ms, step.completed_at_ms) =
                    (Some(answer.at_ms), Some(finished_ms));
            }
            self.write_step(Step::ToolCall(Box::new(step)))?;
            let database = self.database.as_ref().ok_or(SessionError::NoTurn)?;
            side_state::note(
                &mut self.conversation.root,
                database,
                self.facts.generation,
                call,
                result,
            )?;
        }
        self.write_turn()?;
        self.open_turn()?.asked_ms = finished_ms;
        Ok(())
    }

    pub(super) fn add_message(&mut self, message: Value) -> Result<(), SessionError> {
        let id = self.database()?.put(message.to_string().as_bytes())?;
        self.conversation.push(id, message);
        Ok(())
    }

    fn write_step(&mut self, step: Step) -> Result<(), SessionError> {
        let id = self.database()?.put(&ConversationStep { message: Some(step) }.encode_to_vec())?;
        self.open_turn()?.structure.steps.push(id.to_vec());
        Ok(())
    }

    /// Writes the next version of the turn in place of the one before.
    fn write_turn(&mut self) -> Result<(), SessionError> {
        let turn = self.open_turn()?;
        let is_next_version = std::mem::replace(&mut turn.is_in_root, true);
        let structure = Turn::AgentConversationTurn(turn.structure.clone());
        let id = self
            .database()?
            .put(&ConversationTurnStructure { turn: Some(structure) }.encode_to_vec())?;
        let turns = &mut self.conversation.root.turns;
        if is_next_version {
            turns.pop();
        }
        turns.push(id.to_vec());
        Ok(())
    }

    /// Writes the root, then makes it the latest.
    pub(super) fn checkpoint(&mut self) -> Result<(), SessionError> {
        let id = self.database()?.put(&self.conversation.root.encode_to_vec())?;
        self.at(CrashPoint::BetweenRootAndMeta);
        self.meta.set_latest_root(id);
        self.database()?.put_meta(self.meta.to_hex_row())?;
        match &self.meta_file {
            Some(meta_file) if meta_file.has_conversation != Some(true) => self.touch_meta_file(),
            _ => Ok(()),
        }
    }

    fn touch_meta_file(&mut self) -> Result<(), SessionError> {
        if let Some(meta_file) = &mut self.meta_file {
            meta_file.has_conversation = Some(true);
            meta_file.updated_at_ms = Some(signed(now_ms()));
            meta_file.title = self.meta.name().filter(|name| *name != UNNAMED).map(str::to_owned);
        }
        self.write_meta_file()
    }

    pub(super) fn count_tokens(&mut self) {
        let used_tokens = self.conversation.context_tokens();
        self.conversation.root.token_details = Some(ConversationTokenDetails {
            used_tokens,
            max_tokens: MAX_TOKENS,
            ..Default::default()
        });
    }

    /// Returns true for later builds, which write times and the provider's message ids.
    pub(super) fn is_dated(&self) -> bool {
        self.facts.generation == Generation::V2026_09
    }

    fn open_turn(&mut self) -> Result<&mut OpenTurn, SessionError> {
        self.turn.as_mut().ok_or(SessionError::NoTurn)
    }

    pub(super) fn database(&self) -> Result<&WritableStore, SessionError> {
        self.database.as_ref().ok_or(SessionError::NoTurn)
    }
}

/// A name for the session: the first words of the prompt. The real agent asks a model for it.
fn title_of(prompt: &str) -> String {
    const WORDS: usize = 5;
    const CHARACTERS: usize = 60;
    let words: Vec<_> = prompt.split_whitespace().take(WORDS).collect();
    words.join(" ").chars().take(CHARACTERS).collect()
}
