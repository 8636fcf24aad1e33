//! The text of `--help`.

use crate::command_line::table::{CommandSpec, Visibility};

/// Words the help of a command from its table.
pub fn help(spec: &CommandSpec) -> String {
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
    let mut text = format!(
        "Usage: {} [options]{command_hint}{words}\n\n{}\n\nOptions:\n{}",
        spec.name,
        spec.help,
        columns(&options)
    );
    if !commands.is_empty() {
        text.push_str(&format!("\nCommands:\n{}", columns(&commands)));
    }
    text
}

fn usage(command: &CommandSpec) -> String {
    let alias = command.alias.map(|alias| format!("|{alias}")).unwrap_or_default();
    let options = if command.options.is_empty() { "" } else { " [options]" };
    let words =
        if command.words.is_empty() { String::new() } else { format!(" {}", command.words) };
    format!("{}{alias}{options}{words}", command.name)
}

fn columns(rows: &[(String, &str)]) -> String {
    let width = rows.iter().map(|(left, _)| left.len()).max().unwrap_or(0);
    rows.iter().map(|(left, right)| format!("  {left:width$}  {right}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::table::AGENT;

    #[test]
    fn help_says_that_it_is_cursor_and_that_it_is_simulated() {
        let text = help(&AGENT);
        assert!(cursor_home::says_it_is_cursor(&text));
        assert!(text.contains("Cursor Agent") && text.contains("simulated"));
    }

    #[test]
    fn help_shows_what_is_visible_and_nothing_else() {
        let text = help(&AGENT);
        assert!(text.contains("--resume [chatId]") && text.contains("status|whoami [options]"));
        assert!(!text.contains("--new-session-id") && !text.contains("worker-server"));
    }
}
