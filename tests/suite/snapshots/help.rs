//! The help of every command and subcommand.

use super::Shown;
use crate::stage::Stage;

#[test]
fn every_command_has_help_that_fits_its_terminal() {
    let stage = Stage::of_fixed_width();
    let shown = Shown::of(&stage);
    let mut n_commands = 0;
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(command) = open.pop() {
        let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
        args.push("--help");
        let name = if command.is_empty() { "caretaker".to_owned() } else { command.join("-") };
        shown.human(&format!("help/{name}"), &args);
        n_commands += 1;
        let help = String::from_utf8(stage.output(&args).stdout).unwrap();
        open.extend(subcommands(&help).map(|it| [command.clone(), vec![it.to_owned()]].concat()));
    }
    assert!(n_commands > 60, "only {n_commands} commands were found");
}

/// Returns the names in the list of commands. It leaves out hidden commands, and `help`, which has no help of its own.
fn subcommands(help: &str) -> impl Iterator<Item = &str> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
}
