//! The moments between two of the writer's statements where a process may die.

use clap::ValueEnum;

/// A moment between two autocommitted statements. The writer announces each one as it passes.
///
/// The variants are in the order in which a session passes them. After `-->`, a description says what a reader finds if
/// the process is killed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum CrashPoint {
    /// Tables and the meta row exist --> no blob, empty root.
    StoreCreated,
    /// The first prompt is written, the model has not answered --> blobs without a root.
    BeforeFirstRoot,
    /// A later prompt is written, the model has not answered --> the conversation without that prompt.
    AfterUserMessage,
    /// An answer's steps and turn are written, but not the new root --> the root from before the answer.
    AfterBlobsBeforeRoot,
    /// A root is written, the meta row still names the one before --> one newer, unreferenced root.
    BetweenRootAndMeta,
    /// Tools are about to run --> a root with the assistant's message pending.
    MidTool,
    /// Tools have run, but nothing records it --> the same, although the side effects happened.
    AfterToolBeforeResult,
    /// Results and steps are written --> still the pending root.
    AfterResultBeforeCommit,
    /// The last answer is in the root, as pending --> a pending message without a tool call.
    FinalPending,
    /// The turn is complete in the database --> a `meta.json` that is older than the store.
    BetweenMetaAndMetaJson,
    /// Summary and archive are written --> the conversation as it was before the compaction.
    MidCompaction,
}

impl CrashPoint {
    /// Returns every name by which scripts ask for a point.
    pub fn names() -> impl Iterator<Item = String> {
        let values = Self::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        values.map(|value| value.get_name().to_owned())
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }
}
