//! Finds the script: in a file that the environment names, in the prompt, or in a file that the prompt names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Script, ScriptError};

#[derive(Debug, thiserror::Error)]
pub enum FindScriptError {
    #[error("cannot read the script `{path}`: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the script `{path}`, {source}")]
    InFile { path: PathBuf, source: ScriptError },
    #[error("the script in the prompt, {0}")]
    InPrompt(ScriptError),
}

/// Finds the script of this turn. Without one, the agent plays the demonstration.
pub fn find(
    from_environment: Option<&Path>,
    prompt: &str,
    workspace: &Path,
) -> Result<Option<Script>, FindScriptError> {
    if let Some(path) = from_environment {
        return read(path).map(Some);
    }
    if let Some(block) = fenced_block(prompt) {
        return Script::parse(&block).map(Some).map_err(FindScriptError::InPrompt);
    }
    match prompt.lines().find_map(|line| line.trim().strip_prefix("script:")) {
        Some(path) => read(&workspace.join(path.trim())).map(Some),
        None => Ok(None),
    }
}

fn read(path: &Path) -> Result<Script, FindScriptError> {
    let text = fs::read_to_string(path)
        .map_err(|source| FindScriptError::Unreadable { path: path.to_owned(), source })?;
    Script::parse(&text).map_err(|source| FindScriptError::InFile { path: path.to_owned(), source })
}

/// Returns the first block that opens with ```` ```agent ````. Line numbers in errors count from its first line.
fn fenced_block(prompt: &str) -> Option<String> {
    let mut lines = prompt.lines();
    let fence = lines.find_map(|line| {
        let fence = line.trim().strip_suffix("agent")?.trim_end();
        (fence.len() >= 3 && fence.bytes().all(|byte| byte == b'`')).then_some(fence)
    })?;
    let block: Vec<&str> = lines.take_while(|line| line.trim() != fence).collect();
    Some(block.join("\n"))
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
