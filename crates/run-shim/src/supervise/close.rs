//! The end of a run: what its session holds is looked at, and the last event is written.

use std::path::Path;

use cursor_stores::chat::ResumePoint;
use ground::now_ms;
use run_journal::StateRoot;
use run_protocol::{Checkpoint, RunEvent, RunOutcome, RunSpec};

use crate::record::run_record::RunRecord;
use crate::session::checkpoint;
use crate::session::locks::RunLocks;
use crate::session::session_memory::{self, Recollection};
use crate::session::session_record;
use crate::supervise::drive::Driven;
use crate::supervise::outcome_words;

/// What is needed to end a run.
pub(crate) struct Closing<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) state: &'a StateRoot,
    pub(crate) locks: &'a RunLocks,
    /// What the conversation was before the run.
    pub(crate) before: Option<ResumePoint>,
}

/// What a look at the session's store came to.
struct Looked {
    recollection: Recollection,
    checkpoint: Checkpoint,
}

impl Closing<'_> {
    pub(crate) async fn close(self, driven: Driven, store_db: &Path) {
        let Driven { ending, exit_code, stderr_tail, tokens, mut record } = driven;
        let spec = self.spec;
        let mut outcome = outcome_words::outcome_of(ending, &stderr_tail);
        let mut why = match &outcome {
            RunOutcome::SandboxFailed => stderr_tail.clone(),
            outcome => outcome_words::why(outcome, exit_code, &stderr_tail, &spec.limits),
        };
        if !self.locks.is_current() {
            outcome = RunOutcome::LeaseLost;
            why = outcome_words::why(&outcome, exit_code, &stderr_tail, &spec.limits);
        } else if let Some(Looked { recollection, checkpoint }) =
            self.look(store_db, outcome_words::has_answered(&outcome)).await
        {
            if let Some(lost) = outcome_words::lost_memory(&recollection) {
                outcome = RunOutcome::Amnesia;
                why = lost;
            }
            if let Recollection::Forgotten(Ok(put_back)) = &recollection {
                record.event(put_back);
            }
            let generation = self.locks.generation();
            let written =
                session_record::write(self.state, spec, generation, Some(checkpoint.clone()));
            if let Err(error) = written {
                tracing::warn!(%error, "how the session stands could not be written down");
            }
            record.event(&RunEvent::Checkpoint(checkpoint));
        }
        if spec.limits.tokens > 0 && tokens.is_none() {
            why.push_str(outcome_words::UNCOUNTED);
        }
        let ended = RunEvent::Ended {
            outcome,
            why,
            exit_code,
            duration_ms: now_ms().saturating_sub(spec.created_ms),
            stderr_tail,
        };
        record.finish(ended);
    }

    /// A hostile store may keep a reader busy for a while; whoever asks us something meanwhile is to be answered.
    async fn look(&self, store_db: &Path, has_answered: bool) -> Option<Looked> {
        let (store_db, session) = (store_db.to_owned(), self.spec.session);
        let before = self.before.clone();
        let looking = tokio::task::spawn_blocking(move || {
            session_memory::settle(&store_db);
            let recollection = match &before {
                Some(before) => session_memory::check_after(&store_db, before, has_answered),
                None => Recollection::Continued,
            };
            Looked { recollection, checkpoint: checkpoint::checkpoint(&store_db, session) }
        });
        looking.await.ok()
    }
}

/// Ends a run whose agent never ran.
pub(crate) fn end_unrun(record: RunRecord, spec: &RunSpec, outcome: RunOutcome, why: String) {
    let duration_ms = now_ms().saturating_sub(spec.created_ms);
    let ended =
        RunEvent::Ended { outcome, why, exit_code: None, duration_ms, stderr_tail: String::new() };
    record.finish(ended);
}
