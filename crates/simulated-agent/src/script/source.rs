//! Where a script is found: a file named in the environment, a block in the prompt, or a file the prompt names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Script, ScriptError};

#[derive(Debug, thiserror::Error)]
pub enum FindScriptError {
    #[error("the script `{path}` cannot be read: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the script `{path}`, {source}")]
    InFile { path: PathBuf, source: ScriptError },
    #[error("the script in the prompt, {0}")]
    InPrompt(ScriptError),
}

/// Finds the script of this turn; none means the demonstration.
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

/// The first block that opens with ```` ```agent ````. Line numbers of errors count inside it.
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
mod tests {
    use super::super::Order;
    use super::*;

    fn script_of(prompt: &str, workspace: &Path) -> Option<Script> {
        find(None, prompt, workspace).unwrap()
    }

    #[test]
    fn a_block_in_the_prompt_is_the_script() {
        let prompt = "Please do this:\n```agent\nsay hello\n```\nand nothing else";
        let script = script_of(prompt, Path::new("/nowhere")).unwrap();
        assert_eq!(script.orders, [Order::Say("hello".into())]);
        let nested = "````agent\nsay <<END\n```\ncode\n```\nEND\n````";
        let script = script_of(nested, Path::new("/nowhere")).unwrap();
        assert_eq!(script.orders, [Order::Say("```\ncode\n```".into())]);
    }

    #[test]
    fn a_prompt_may_name_a_file_of_the_workspace() {
        let workspace = tempfile::tempdir().unwrap();
        fs::write(workspace.path().join("plan.txt"), "say from the file").unwrap();
        let script = script_of("Do as written.\nscript: plan.txt", workspace.path()).unwrap();
        assert_eq!(script.orders, [Order::Say("from the file".into())]);
        assert!(script_of("no script here", workspace.path()).is_none());
    }

    #[test]
    fn the_environment_comes_first_and_a_mistake_names_file_and_line() {
        let workspace = tempfile::tempdir().unwrap();
        let path = workspace.path().join("orders");
        fs::write(&path, "say one\nsya two").unwrap();
        let err = find(Some(&path), "```agent\nsay other\n```", workspace.path()).unwrap_err();
        let expected =
            format!("the script `{}`, line 2: there is no order `sya`, only `say`", path.display());
        assert_eq!(err.to_string(), expected);
    }
}
