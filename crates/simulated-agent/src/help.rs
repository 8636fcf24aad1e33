//! The text of `--help`.

use crate::command_line::Topic;
use crate::command_line::table::{CommandSpec, Visibility};

/// Words the help of a command from its table.
pub fn help(topic: &Topic) -> String {
    let spec = topic.command;
    let commands: Vec<(String, &str)> = spec
        .subcommands
        .iter()
        .filter(|command| command.visibility == Visibility::InHelp)
        .map(|command| (usage(command), command.help))
        .collect();
    let mut options: Vec<(String, &str)> =
        spec.visible_options().map(|option| (option.flags.to_owned(), option.help)).collect();
    options.push(("-h, --help".to_owned(), "Display this help"));
    let command_hint = if commands.is_empty() { "" } else { " [command]" };
    let words = if spec.words.is_empty() { String::new() } else { format!(" {}", spec.words) };
    let parents: String = topic.parents.iter().map(|parent| format!("{parent} ")).collect();
    let mut text = format!(
        "Usage: {parents}{} [options]{command_hint}{words}\n\n{}\n\nOptions:\n{}",
        names(spec),
        spec.help,
        columns(&options)
    );
    if !commands.is_empty() {
        text.push_str(&format!("\nCommands:\n{}", columns(&commands)));
    }
    text
}

fn names(command: &CommandSpec) -> String {
    let alias = command.alias.map(|alias| format!("|{alias}")).unwrap_or_default();
    format!("{}{alias}", command.name)
}

fn usage(command: &CommandSpec) -> String {
    let options = if command.options.is_empty() { "" } else { " [options]" };
    let words =
        if command.words.is_empty() { String::new() } else { format!(" {}", command.words) };
    format!("{}{options}{words}", names(command))
}

fn columns(rows: &[(String, &str)]) -> String {
    let width = rows.iter().map(|(left, _)| left.len()).max().unwrap_or(0);
    rows.iter().map(|(left, right)| format!("  {left:width$}  {right}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{NothingToDo, parse, table::AGENT};

    fn agent() -> Topic {
        Topic { parents: Vec::new(), command: &AGENT }
    }

    #[test]
    fn help_says_that_it_is_cursor_and_that_it_is_simulated() {
        let text = help(&agent());
        assert!(cursor_home::says_it_is_cursor(&text));
        assert!(text.contains("Cursor Agent") && text.contains("simulated"));
    }

    #[test]
    fn help_shows_what_is_visible_and_nothing_else() {
        let text = help(&agent());
        assert!(text.contains("--resume [chatId]") && text.contains("status|whoami [options]"));
        assert!(!text.contains("--new-session-id") && !text.contains("worker-server"));
    }

    #[test]
    fn the_usage_begins_with_the_commands_above() {
        let usage_of = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            match parse(&arguments) {
                Err(NothingToDo::Help(topic) | NothingToDo::HelpInstead(topic)) => {
                    help(&topic).lines().next().unwrap().to_owned()
                }
                other => panic!("{other:?} is no help"),
            }
        };
        assert_eq!(usage_of(&["--help"]), "Usage: agent [options] [command] [prompt...]");
        assert_eq!(usage_of(&["mcp"]), "Usage: agent mcp [options] [command]");
        assert_eq!(
            usage_of(&["mcp", "enable", "-h"]),
            "Usage: agent mcp enable [options] <server>"
        );
        assert_eq!(usage_of(&["mcp", "help", "list"]), "Usage: agent mcp list [options]");
        assert_eq!(usage_of(&["help", "status"]), "Usage: agent status|whoami [options]");
    }
}
