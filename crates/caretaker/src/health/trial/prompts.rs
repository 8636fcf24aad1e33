//! The two prompts of a trial.
//!
//! A model follows the words. The simulated agent has no model and plays the block, as it does in any prompt.

use uuid::Uuid;

/// A host that exists and that no run needs. The sandbox must refuse it.
pub(crate) const UNLISTED_HOST: &str = "example.com";
/// The tool that the agent is asked to call.
pub(crate) const TOOL: &str = "report_progress";

/// A word that no agent can guess.
pub(crate) fn word() -> String {
    let id = Uuid::new_v4().simple().to_string();
    format!("heron-{}", &id[..6])
}

pub(crate) fn first(word: &str) -> String {
    format!(
        "This is a short test of the tools around you. Please take these steps in this order, and nothing else:\n\
         \n\
         1. Remember this word for later: {word}\n\
         2. Call the tool `{TOOL}` of the MCP server `caretaker` with the text \"trial\".\n\
         3. Run this shell command once; it is meant to fail: getent hosts {UNLISTED_HOST}\n\
         4. Answer with one word: ready\n\
         \n\
         The same steps, for an agent that follows a script:\n\
         \n\
         ```agent\n\
         mcp caretaker {TOOL} {{\"text\":\"trial\"}}\n\
         shell getent hosts {UNLISTED_HOST}\n\
         say ready\n\
         ```\n"
    )
}

pub(crate) fn second() -> &'static str {
    "Which word did I ask you to remember? Answer with that word only, and use no tools.\n\
     \n\
     The same step, for an agent that follows a script:\n\
     \n\
     ```agent\n\
     recall\n\
     ```\n"
}
