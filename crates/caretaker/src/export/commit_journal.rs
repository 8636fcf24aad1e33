//! The development journal in Markdown: the prompts, files, commands and conclusions behind each commit.

use std::io::{self, Write};

use admission::words::units::grouped;
use cursor_stores::model::{Moment, ToolCall, display_model};
use serde_json::Value as Json;

use super::facts;
use super::harmless_markdown::{code, fenced, harmless, plain};
use crate::commits::episode::Episode;
use crate::commits::git::Commit;
use crate::commits::ranking::Match;

/// A list names at most this many files, and counts the rest.
const MOST_FILES: usize = 100;
/// Shows at most this many characters of a command.
const LONGEST_COMMAND: usize = 1000;

/// A commit, with the conversations in its window.
pub(crate) struct Entry<'a> {
    pub(crate) commit: &'a Commit,
    /// Written by [`episode`], likeliest first.
    pub(crate) episodes: Vec<String>,
    /// Written by [`earlier`].
    pub(crate) earlier: Vec<String>,
}

pub(crate) fn write(entries: &[Entry<'_>], window: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# Development journal\n")?;
    writeln!(out, "- Commits: {}", grouped(entries.len() as u64))?;
    writeln!(out, "- Window of each commit: {}", plain(window))?;
    for Entry { commit, episodes, earlier } in entries {
        writeln!(out, "\n## {} {}\n", code(short(&commit.id)), plain(&commit.subject))?;
        writeln!(out, "- Commit: {}", code(&commit.id))?;
        writeln!(out, "- Written: {}", facts::moment(Moment::recorded(commit.author_ms)))?;
        if commit.commit_ms != commit.author_ms {
            writeln!(out, "- Committed: {}", facts::moment(Moment::recorded(commit.commit_ms)))?;
        }
        write_list(out, "Files", &commit.files)?;
        if episodes.is_empty() {
            writeln!(out, "\n*No conversation in its window.*")?;
        }
        episodes.iter().try_for_each(|episode| out.write_all(episode.as_bytes()))?;
        if !earlier.is_empty() {
            writeln!(out, "\n### Earlier\n")?;
            earlier.iter().try_for_each(|line| writeln!(out, "- {line}"))?;
        }
    }
    Ok(())
}

/// The section about one conversation behind a commit.
pub(crate) fn episode(episode: &Episode<'_>, found: &Match) -> String {
    let mut out = Vec::new();
    // Writing to a vector cannot fail.
    let _infallible = write_episode(episode, found, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The line about a conversation that changed the commit's files before its window.
pub(crate) fn earlier(id: &str, title: Option<&str>, found: &Match) -> String {
    let title = title.map_or_else(String::new, |title| format!(" {}", plain(title)));
    format!("{}{title}: {}", code(id), plain(&found.reason()))
}

fn write_episode(episode: &Episode<'_>, found: &Match, out: &mut dyn Write) -> io::Result<()> {
    let head = &episode.conversation.head;
    writeln!(out, "\n### {}\n", plain(&facts::title(head)))?;
    writeln!(out, "- Session: {}", code(&head.id))?;
    writeln!(out, "- Chosen because: {} (score {} of 100)", plain(&found.reason()), found.score)?;
    writeln!(out, "- Part: {}", plain(&extent(episode)))?;
    let mut models: Vec<String> = Vec::new();
    for model in episode.messages.iter().filter_map(|(_, message)| message.model.as_deref()) {
        let name = display_model(model);
        if !models.contains(&name) {
            models.push(name);
        }
    }
    if !models.is_empty() {
        writeln!(out, "- Models: {}", plain(&models.join(", ")))?;
    }
    write_list(out, "Files changed", &episode.changed)?;
    write_list(out, "Files discussed", &episode.discussed)?;
    if let Some(prompt) = episode.goes_on_with() {
        let at = prompt
            .at
            .map_or_else(|| "from before".to_owned(), |at| format!("from {}", facts::moment(at)));
        writeln!(out, "\n*Continues the prompt {}.*", plain(&at))?;
    }
    for prompt in episode.prompts() {
        let at = prompt.at.map_or_else(String::new, |at| format!(" ({})", facts::moment(at)));
        writeln!(out, "\n**Prompt**{}\n\n{}", plain(&at), fenced("", &prompt.text()))?;
    }
    let mut commands = episode.commands().peekable();
    if commands.peek().is_some() {
        writeln!(out, "\n**Commands**\n")?;
    }
    for call in commands {
        writeln!(out, "- {}: {}", code(&command(call)), plain(&outcome(call)))?;
    }
    match episode.conclusion() {
        Some(conclusion) => writeln!(out, "\n**Conclusion**\n\n{}", harmless(&conclusion)),
        None => Ok(()),
    }
}

/// `messages 3 to 9 of 20`.
fn extent(episode: &Episode<'_>) -> String {
    let n_all = grouped(episode.conversation.messages.len() as u64);
    let number = |place: Option<&(usize, _)>| place.map(|(place, _)| grouped(*place as u64 + 1));
    let ends = (number(episode.messages.first()), number(episode.messages.last()));
    match ends {
        _ if episode.is_whole => {
            format!("all {n_all} messages (the store has no time per message)")
        }
        (Some(first), Some(last)) if first == last => format!("message {first} of {n_all}"),
        (Some(first), Some(last)) => format!("messages {first} to {last} of {n_all}"),
        _ => format!("tool calls in a longer message, of {n_all} messages"),
    }
}

fn write_list(out: &mut dyn Write, name: &str, paths: &[String]) -> io::Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let mut named: Vec<String> = paths.iter().take(MOST_FILES).map(|path| code(path)).collect();
    if paths.len() > MOST_FILES {
        named.push(format!("and {} more", grouped((paths.len() - MOST_FILES) as u64)));
    }
    writeln!(out, "- {name}: {}", named.join(", "))
}

fn command(call: &ToolCall) -> String {
    let text = call.input["command"].as_str().or_else(|| call.input.as_str());
    let text = text.map_or_else(|| call.input.to_string(), |text| text.trim().to_owned());
    let mut command: String = text.chars().take(LONGEST_COMMAND).collect();
    if command.len() < text.len() {
        command.push('…');
    }
    command
}

/// `failed, 9.2 s, exit code 101`.
fn outcome(call: &ToolCall) -> String {
    let output = call.result.as_ref().map_or(&Json::Null, |result| &result.output);
    let code = ["exitCode", "exit_code"].iter().find_map(|name| output[name].as_i64());
    let code = code.map_or_else(String::new, |code| format!(", exit code {code}"));
    format!("{}{code}", facts::tool_outcome(call))
}

fn short(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}
