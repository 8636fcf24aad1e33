//! The moments between two statements of the writer at which a process may die.

/// A moment between two autocommitted statements. The writer announces each one as it passes.
///
/// `-->` in a description is what a reader finds when the process is killed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CrashPoint {
    /// Tables and the meta row exist --> no blob, empty root.
    StoreCreated,
    /// The first prompt is written, the model has not answered --> blobs without a root.
    BeforeFirstRoot,
    /// A later prompt is written, the model has not answered --> the conversation without that prompt.
    AfterUserMessage,
    /// Steps and turn of an answer are written --> the root from before the answer.
    AfterBlobsBeforeRoot,
    /// A root is written, the meta row still names the one before --> one newer, unreferenced root.
    BetweenRootAndMeta,
    /// Tools are about to run --> a root with the assistant's message pending.
    MidTool,
    /// Tools have run and nothing says so --> the same, though the side effects happened.
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
    /// Every point, in the order in which a session passes them.
    pub const ALL: [Self; 11] = [
        Self::StoreCreated,
        Self::BeforeFirstRoot,
        Self::AfterUserMessage,
        Self::AfterBlobsBeforeRoot,
        Self::BetweenRootAndMeta,
        Self::MidTool,
        Self::AfterToolBeforeResult,
        Self::AfterResultBeforeCommit,
        Self::FinalPending,
        Self::BetweenMetaAndMetaJson,
        Self::MidCompaction,
    ];

    /// The name by which scripts ask for the point.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::StoreCreated => "store-created",
            Self::BeforeFirstRoot => "before-first-root",
            Self::AfterUserMessage => "after-user-message",
            Self::AfterBlobsBeforeRoot => "after-blobs-before-root",
            Self::BetweenRootAndMeta => "between-root-and-meta",
            Self::MidTool => "mid-tool",
            Self::AfterToolBeforeResult => "after-tool-before-result",
            Self::AfterResultBeforeCommit => "after-result-before-commit",
            Self::FinalPending => "final-pending",
            Self::BetweenMetaAndMetaJson => "between-meta-and-meta-json",
            Self::MidCompaction => "mid-compaction",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }
}
