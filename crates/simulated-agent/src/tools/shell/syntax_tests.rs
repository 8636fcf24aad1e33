use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn names(source: &str) -> Vec<String> {
    ParsedCommand::parse(source).commands.into_iter().map(|command| command.name).collect()
}

fn kinds(source: &str) -> Vec<String> {
    let parsed = ParsedCommand::parse(source);
    parsed.commands[0].args.iter().map(|arg| arg.kind.clone()).collect()
}

#[test]
fn a_plain_command_is_read_as_in_the_captures() {
    let word = |kind: &str, text: &str| Word { kind: kind.to_owned(), text: text.to_owned() };
    assert_eq!(
        ParsedCommand::parse("curl -sI https://example.com"),
        ParsedCommand {
            commands: vec![SimpleCommand {
                name: "curl".to_owned(),
                args: vec![word("word", "-sI"), word("word", "https://example.com")],
                full_text: "curl -sI https://example.com".to_owned(),
            }],
            ..ParsedCommand::default()
        }
    );
    assert_eq!(ParsedCommand::parse("sleep 5").commands[0].args, [word("number", "5")]);
}

#[test]
fn every_program_of_a_list_or_pipeline_is_named() {
    for (source, expected) in [
        ("cd foo && ls -la | wc -l; echo done", vec!["cd", "ls", "wc", "echo"]),
        ("FOO=1 BAR=2 make all", vec!["make"]),
        ("FOO=1", vec![]),
        ("! grep x y || true &", vec!["grep", "true"]),
        ("(cd a; ls) # rm -rf /", vec!["cd", "ls"]),
        ("if test -f a; then cat a; else touch a; fi", vec!["test", "cat", "touch"]),
        ("while read x; do echo \"$x\"; done < list", vec!["read", "echo"]),
        ("{ ls; }", vec!["ls"]),
        ("\\rm x; \"ls\" y; 'l'\"s\"", vec!["rm", "ls", "ls"]),
        ("echo one \\\n two", vec!["echo"]),
        ("echo $(rm -rf `find x`)", vec!["find", "rm", "echo"]),
        ("echo \"now $(date)\" 'not $(rm)'", vec!["date", "echo"]),
        ("diff <(sort a) <(sort b)", vec!["sort", "sort", "diff"]),
        ("echo $((1 + 2)) ${HOME}", vec!["echo"]),
        ("for x in *; do rm $x; done", vec!["rm"]),
        ("case a in b) c;; esac", vec!["c"]),
        ("f() { rm x; }; f", vec!["rm", "f"]),
    ] {
        assert_eq!(names(source), expected, "{source}");
        assert!(!ParsedCommand::parse(source).parsing_failed, "{source}");
    }
}

#[test]
fn here_documents_are_text_and_not_commands() {
    let parsed = ParsedCommand::parse("cat > out.txt <<'EOF'\nrm -rf /\nEOF\nls");
    assert_eq!(
        parsed.commands.iter().map(|command| command.name.as_str()).collect::<Vec<_>>(),
        ["cat", "ls"]
    );
    assert!(!parsed.parsing_failed);
    assert!(parsed.has_input_redirect() && parsed.has_output_redirect());
    assert!(ParsedCommand::parse("cat <<EOF\nnever closed").parsing_failed);
}

#[test]
fn redirections_are_listed_and_are_not_arguments() {
    let parsed = ParsedCommand::parse("make all > log.txt 2>&1 < in &>> both");
    let redirects: Vec<_> =
        parsed.redirects.iter().map(|r| (r.operator.as_str(), r.target.as_str())).collect();
    assert_eq!(redirects, [(">", "log.txt"), (">&", "1"), ("<", "in"), ("&>>", "both")]);
    assert_eq!(parsed.commands[0].args.len(), 1);
    assert!(ParsedCommand::parse("ls >").parsing_failed);
}

#[test]
fn substitutions_are_noticed_wherever_the_shell_would_run_them() {
    for (source, expected) in [
        ("echo $(date)", true),
        ("echo `date`", true),
        ("echo \"$(date)\"", true),
        ("cat <(date)", true),
        ("echo ${x:-$(date)}", true),
        ("echo '$(date)'", false),
        ("echo $((1+1)) $x \\$(", false),
    ] {
        assert_eq!(ParsedCommand::parse(source).has_command_substitution, expected, "{source}");
    }
}

#[test]
fn words_are_classified_by_how_they_are_written() {
    let source = "x plain 7 'raw' \"str\" $name ${name} $(date) a'b'";
    let expected = "word number raw_string string simple_expansion expansion command_substitution concatenation";
    let parsed = ParsedCommand::parse(source);
    let x = parsed.commands.iter().find(|command| command.name == "x").unwrap();
    assert_eq!(x.args.iter().map(|arg| arg.kind.as_str()).collect::<Vec<_>>().join(" "), expected);
    assert_eq!(kinds("x 'a''b'"), ["concatenation"]);
}

#[test]
fn a_command_with_an_open_quote_or_bracket_is_not_parsed() {
    for source in ["echo 'open", "echo \"open", "echo $(open", "echo `open"] {
        assert!(ParsedCommand::parse(source).parsing_failed, "{source}");
    }
    let nested = format!("{}x{}", "$(".repeat(2000), ")".repeat(2000));
    ParsedCommand::parse(&nested);
}

proptest! {
    #[test]
    fn no_input_breaks_the_reader(source in "[ -~\\né]{0,60}") {
        ParsedCommand::parse(&source);
    }

    #[test]
    fn no_arrangement_of_brackets_and_quotes_breaks_the_reader(source in "[()<>{}$`'\"\\\\|&;#\n ax2=é]{0,40}") {
        ParsedCommand::parse(&source);
    }

    #[test]
    fn plain_words_are_parsed_unchanged(words in prop::collection::vec("[b-df-hj-np-tv-z/.-]{1,6}", 1..6)) {
        let source = words.join("  ");
        let parsed = ParsedCommand::parse(&source);
        prop_assert_eq!(parsed.commands.len(), 1);
        prop_assert_eq!(&parsed.commands[0].name, &words[0]);
        prop_assert_eq!(parsed.commands[0].args.iter().map(|arg| arg.text.clone()).collect::<Vec<_>>(), &words[1..]);
        prop_assert_eq!(&parsed.commands[0].full_text, &source);
    }

    #[test]
    fn any_text_in_single_quotes_is_one_raw_string(text in "[ -&(-~]{0,30}") {
        let parsed = ParsedCommand::parse(&format!("echo '{text}'"));
        prop_assert_eq!(parsed.commands.len(), 1);
        prop_assert_eq!(&parsed.commands[0].args[0].kind, &"raw_string");
        prop_assert!(!parsed.parsing_failed);
    }
}
