use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;

use super::*;

fn parsed(arguments: &[&str]) -> Result<Invocation, NothingToDo> {
    parse(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
}

fn read(arguments: &[&str]) -> Invocation {
    parsed(arguments).unwrap()
}

fn mistake(arguments: &[&str]) -> String {
    match parsed(arguments) {
        Err(NothingToDo::Mistake(text)) => text,
        other => panic!("{other:?} is not a mistake"),
    }
}

#[test]
fn words_and_options_may_be_mixed() {
    let invocation = read(&["-p", "fix", "--model", "auto", "the", "tests"]);
    assert_eq!(invocation.words, ["fix", "the", "tests"]);
    assert_eq!(invocation.options.value("model"), Some("auto"));
    assert!(invocation.options.has("print"));
}

#[test]
fn values_follow_an_equals_sign_or_a_space_and_the_last_one_wins() {
    let invocation = read(&["--model=a", "--model", "b", "-e", "http://x", "-Hname: value"]);
    assert_eq!(invocation.options.value("model"), Some("b"));
    assert_eq!(invocation.options.value("endpoint"), Some("http://x"));
    assert_eq!(invocation.options.value("header"), Some("name: value"));
}

#[test]
fn short_flags_combine() {
    let invocation = read(&["-pf", "go"]);
    assert!(invocation.options.has("print") && invocation.options.has("force"));
    assert_eq!(mistake(&["-pz"]), "error: unknown option '-z'");
}

#[test]
fn an_optional_value_is_taken_only_when_it_is_not_an_option() {
    assert_eq!(read(&["--resume", "abc"]).options.value("resume"), Some("abc"));
    assert_eq!(read(&["--resume=-2"]).options.value("resume"), Some("-2"));
    let bare = read(&["--resume", "--print"]);
    assert!(bare.options.has("resume") && bare.options.has("print"));
    assert_eq!(bare.options.value("resume"), None);
}

#[test]
fn two_dashes_end_the_options() {
    let invocation = read(&["-p", "--", "--model", "-x"]);
    assert_eq!(invocation.words, ["--model", "-x"]);
    assert_eq!(invocation.options.value("model"), None);
}

#[test]
fn subcommands_are_found_by_name_and_alias_and_keep_their_own_options() {
    let invocation = read(&["--api-key", "k", "whoami", "--format", "json"]);
    assert_eq!(invocation.command, ["status"]);
    assert_eq!(invocation.options.value("format"), Some("json"));
    assert_eq!(invocation.options.value("api-key"), Some("k"));
    let listing = read(&["mcp", "list-tools", "files"]);
    assert_eq!((listing.command, listing.words), (vec!["mcp", "list-tools"], vec!["files".into()]));
    assert_eq!(read(&["agent", "hello"]).command, ["agent"]);
}

#[test]
fn a_mistake_is_worded_as_commander_words_it() {
    assert_eq!(mistake(&["--x"]), "error: unknown option '--x'");
    assert_eq!(
        mistake(&["--modl", "a"]),
        "error: unknown option '--modl'\n(Did you mean one of --mode, --model?)"
    );
    assert_eq!(mistake(&["--prin"]), "error: unknown option '--prin'\n(Did you mean --print?)");
    assert_eq!(mistake(&["--print=yes"]), "error: unknown option '--print=yes'");
    assert_eq!(mistake(&["--model"]), "error: option '--model <id>' argument missing");
    assert_eq!(
        mistake(&["--mode", "wild"]),
        "error: option '--mode <mode>' argument 'wild' is invalid. Allowed choices are plan, ask."
    );
    assert_eq!(mistake(&["mcp", "enable"]), "error: missing required argument 'server'");
    assert_eq!(mistake(&["mcp", "lst"]), "error: unknown command 'lst'\n(Did you mean list?)");
    assert_eq!(
        mistake(&["status", "now"]),
        "error: too many arguments for 'status'. Expected 0 arguments but got 1."
    );
}

#[test]
fn hidden_options_work_and_are_never_suggested() {
    assert!(read(&["--single-turn", "hello"]).options.has("single-turn"));
    assert_eq!(mistake(&["--single-tur"]), "error: unknown option '--single-tur'");
}

#[test]
fn help_and_version_come_before_the_work() {
    assert_eq!(parsed(&["-v", "--nonsense"]), Err(NothingToDo::Version));
    let agent = || Topic { parents: Vec::new(), command: &table::AGENT };
    let mcp = || Topic { parents: vec!["agent"], command: table::AGENT.subcommand("mcp").unwrap() };
    assert_eq!(parsed(&["fix", "--help"]), Err(NothingToDo::Help(agent())));
    assert_eq!(parsed(&["help"]), Err(NothingToDo::Help(agent())));
    assert_eq!(parsed(&["mcp", "--help"]), Err(NothingToDo::Help(mcp())));
    assert_eq!(parsed(&["help", "mcp"]), Err(NothingToDo::Help(mcp())));
    // Asked for nothing that there is.
    assert_eq!(parsed(&["mcp"]), Err(NothingToDo::HelpInstead(mcp())));
    assert_eq!(parsed(&["help", "mpc"]), Err(NothingToDo::HelpInstead(agent())));
}

#[test]
fn an_option_that_nothing_asks_for_says_so_in_help() {
    let mut sources = Vec::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if !path.ends_with("command_line/table.rs") && !path.ends_with(file!()) {
            sources.push(fs::read_to_string(path).unwrap());
        }
    }
    // The others were never given the options.
    sources.retain(|source| source.contains("options.") || source.contains("option."));
    for option in table::AGENT.visible_options() {
        let name = format!("\"{}\"", option.long());
        let is_asked_for = sources.iter().any(|source| source.contains(&name));
        assert_eq!(is_asked_for, !option.help.contains("(accepted, "), "{}", option.flags);
    }
}

#[test]
fn every_option_of_the_table_can_be_found_by_its_flags() {
    for option in table::AGENT.options {
        let found = table::AGENT.option(&format!("--{}", option.long()));
        assert_eq!(found, Some(option), "{}", option.flags);
    }
}
