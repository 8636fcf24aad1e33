use pretty_assertions::assert_eq;

use super::*;

fn parsed(arguments: &[&str]) -> Result<Parsed, Ending> {
    parse(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
}

fn read(arguments: &[&str]) -> CommandLine {
    match parsed(arguments) {
        Ok(Parsed::Run(command_line)) => *command_line,
        other => panic!("{other:?} is not a command line"),
    }
}

fn mistake(arguments: &[&str]) -> String {
    let ending = parsed(arguments).unwrap_err();
    assert_eq!(ending.exit_code, 1);
    ending.stderr.trim_end().to_owned()
}

fn help(arguments: &[&str]) -> String {
    match parsed(arguments) {
        Ok(Parsed::Print(text)) => text,
        other => panic!("{other:?} is not help"),
    }
}

#[test]
fn the_definition_is_sound() {
    definition().debug_assert();
}

#[test]
fn words_and_options_may_be_mixed() {
    let line = read(&["-p", "fix", "--model", "auto", "the", "tests"]);
    assert_eq!(line.words, ["fix", "the", "tests"]);
    assert_eq!(line.options.model.as_deref(), Some("auto"));
    assert!(line.options.print);
    assert_eq!(read(&["fix", "the", "status"]).words, ["fix", "the", "status"]);
}

#[test]
fn values_follow_an_equals_sign_or_a_space_and_the_last_one_wins() {
    let line = read(&["--model=a", "--model", "b", "-e", "http://x", "-Hname: value", "-p", "-p"]);
    assert_eq!(line.options.model.as_deref(), Some("b"));
    assert_eq!(line.ignored.endpoint.as_deref(), Some("http://x"));
    assert_eq!(line.ignored.header, ["name: value"]);
    assert_eq!(read(&["--api-key", "-x"]).options.api_key.as_deref(), Some("-x"));
}

#[test]
fn short_flags_combine() {
    let line = read(&["-pf", "go"]);
    assert!(line.options.print && line.options.force);
    assert_eq!(mistake(&["-pz"]), "error: unknown option '-z'");
    assert!(read(&["--yolo"]).options.force);
}

#[test]
fn an_optional_value_is_taken_only_when_it_is_not_an_option() {
    let resume = |arguments: &[&str]| read(arguments).options.resume;
    assert_eq!(resume(&["--resume", "abc"]), Some(Some("abc".to_owned())));
    assert_eq!(resume(&["--resume=-2"]), Some(Some("-2".to_owned())));
    assert_eq!(resume(&["--resume", "--print"]), Some(None));
    assert_eq!(resume(&["--print"]), None);
}

#[test]
fn two_dashes_end_the_options() {
    let line = read(&["-p", "--", "--model", "-x"]);
    assert_eq!(line.words, ["--model", "-x"]);
    assert_eq!(line.options.model, None);
}

#[test]
fn subcommands_are_found_by_name_and_alias_and_options_may_follow_them() {
    let line = read(&["--api-key", "k", "whoami", "--format", "json"]);
    assert!(matches!(&line.command, Some(Verb::Status(format)) if format.is_json()));
    assert_eq!(line.options.api_key.as_deref(), Some("k"));
    let line = read(&["mcp", "list-tools", "files", "--approve-mcps", "--workspace", "w"]);
    assert!(
        matches!(line.command, Some(Verb::Mcp(McpVerb::ListTools { server })) if server == "files")
    );
    assert!(line.options.approve_mcps);
    assert_eq!(line.options.workspace.as_deref(), Some("w"));
    let line = read(&["agent", "-p", "hello"]);
    assert!(matches!(line.command, Some(Verb::Agent { words }) if words == ["hello"]));
    assert!(line.options.print);
}

#[test]
fn a_mistake_is_worded_as_commander_words_it() {
    assert_eq!(mistake(&["--x"]), "error: unknown option '--x'");
    assert_eq!(mistake(&["--prin"]), "error: unknown option '--prin'\n(Did you mean --print?)");
    assert_eq!(mistake(&["--print=yes"]), "error: unknown option '--print=yes'");
    assert_eq!(mistake(&["--model"]), "error: option '--model <id>' argument missing");
    assert_eq!(
        mistake(&["--mode", "wild"]),
        "error: option '--mode <mode>' argument 'wild' is invalid. Allowed choices are plan, ask."
    );
    assert_eq!(mistake(&["mcp", "enable"]), "error: missing required argument 'server'");
    assert_eq!(mistake(&["mcp", "lst"]), "error: unknown command 'lst'\n(Did you mean list?)");
    assert_eq!(mistake(&["status", "now"]), "error: too many arguments: 'now'");
    for refused in [&["login"][..], &["acp", "--x"], &["plugin", "add", "y"]] {
        let name = refused[0];
        assert_eq!(mistake(refused), format!("simulated agent: `{name}` is not simulated"));
    }
}

#[test]
fn hidden_options_work_and_help_does_not_show_them() {
    assert!(read(&["--single-turn", "hello"]).options.single_turn);
    let help = help(&["--help"]);
    assert!(help.contains("--resume [<chatId>]") && help.contains("status"), "{help}");
    assert!(!help.contains("--new-session-id") && !help.contains("worker-server"), "{help}");
}

#[test]
fn help_names_cursor_and_says_that_the_agent_is_simulated() {
    let text = help(&["fix", "--help"]);
    assert!(cursor_home::says_it_is_cursor(&text));
    assert!(text.contains("Cursor Agent") && text.contains("simulated"));
    assert_eq!(help(&["help", "mcp"]), help(&["mcp", "--help"]));
    assert!(help(&["mcp", "enable", "-h"]).contains("Usage: agent mcp enable [OPTIONS] <SERVER>"));
}

#[test]
fn a_command_group_without_a_subcommand_prints_its_help() {
    let text = mistake(&["mcp"]);
    assert!(text.contains("Usage: agent mcp") && text.contains("list-tools"), "{text}");
}

#[test]
fn an_option_says_in_help_that_it_is_ignored() {
    let says_so = |command: Command| {
        let visible = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned();
        let said = visible.map(|arg| arg.get_help().unwrap().to_string().contains("(accepted, "));
        said.collect::<Vec<bool>>()
    };
    assert!(says_so(Ignored::augment_args(Command::new("agent"))).iter().all(|said| *said));
    assert!(!says_so(Options::augment_args(Command::new("agent"))).iter().any(|said| *said));
}
