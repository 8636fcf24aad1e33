use super::*;
use crate::host::environment::tests::environment_of;

fn secrets_of(flags: &[&str]) -> Result<Vec<NamedSecret>, CommandError> {
    let environment = environment_of(&[
        ("HOME", Path::new("/home/ada")),
        ("TOKEN", Path::new("token-0123456789")),
        ("PIN", Path::new("1234")),
    ]);
    let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    read_all(&flags, &environment)
}

#[test]
fn a_secret_comes_from_a_variable_or_from_a_file_without_its_last_newline() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    std::fs::write(&file, "first line\nsecond line\n").unwrap();
    let from_file = format!("KEY=file:{}", file.display());
    let secrets = secrets_of(&["NPM_TOKEN=env:TOKEN", &from_file]).unwrap();
    let secrets: Vec<(&str, &str)> =
        secrets.iter().map(|secret| (secret.name.as_str(), secret.value.as_str())).collect();
    assert_eq!(secrets, [("NPM_TOKEN", "token-0123456789"), ("KEY", "first line\nsecond line")]);
}

#[test]
fn an_invalid_secret_is_refused_and_never_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        std::fs::write(directory.path().join(name), content).unwrap();
        format!("X=file:{}", directory.path().join(name).display())
    };
    let nul = write("nul", b"0123456789\0");
    let odd = write("odd", b"0123456789\xff");
    let long = write("long", &vec![b'x'; 64 * 1024 + 1]);
    let empty = write("empty", b"\n");
    let missing = format!("X=file:{}", directory.path().join("missing").display());
    let no_file = format!("X=file:{}", directory.path().display());
    for (flags, part) in [
        (&["X"][..], "NAME=env:VARIABLE"),
        (&["X=hunter2hunter2"], "NAME=env:VARIABLE"),
        (&["X=file:"], "NAME=env:VARIABLE"),
        (&["1X=env:TOKEN"], "NAME=env:VARIABLE"),
        (&["A B=env:TOKEN"], "NAME=env:VARIABLE"),
        (&["X=env:NOT_SET"], "`NOT_SET` for the secret `X` is not set"),
        (&["X=env:"], "after `env:`"),
        (&["X=env:PIN"], "fewer than 8"),
        (&["HOME=env:TOKEN"], "is set by caretaker"),
        (&["LD_PRELOAD=env:TOKEN"], "before it starts"),
        (&["NODE_OPTIONS=env:TOKEN"], "before it starts"),
        (&["CURSOR_CONFIG_DIR=env:TOKEN"], "is set by caretaker"),
        (&["HTTPS_PROXY=env:TOKEN"], "`HTTPS_PROXY` cannot be a secret: it is set by caretaker"),
        (&["no_proxy=env:TOKEN"], "directs programs to the hosts"),
        (&["GIT_DIR=env:TOKEN"], "would break the agent"),
        (&["X=env:TOKEN", "X=env:TOKEN"], "given twice"),
        (&[&missing], "cannot be read"),
        (&[&no_file], "is not a plain file"),
        (&[&nul], "NUL"),
        (&[&odd], "not UTF-8"),
        (&[&long], "longer than"),
        (&[&empty], "fewer than 8"),
    ] {
        let error = secrets_of(flags).unwrap_err();
        let text = error.text();
        assert!(text.contains(part) && text.contains("hint:"), "{flags:?}: {text}");
        assert!(!text.contains("hunter2") && !text.contains("0123456789"), "{text}");
    }
}

#[test]
fn an_unreadable_file_counts_as_caused_by_the_request() {
    // A plain file whose first bytes cannot be read.
    let error = secrets_of(&["X=file:/proc/self/mem"]).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Failed);
    assert!(error.is_caused_by_request(), "{}", error.text());
}

#[test]
fn the_agents_own_key_may_come_from_a_file() {
    assert_eq!(secrets_of(&["CURSOR_API_KEY=env:TOKEN"]).unwrap()[0].name, "CURSOR_API_KEY");
}

#[test]
fn a_secret_is_not_printed_by_accident() {
    let shown = format!("{:?}", secrets_of(&["X=env:TOKEN"]).unwrap());
    assert_eq!(shown, "[NamedSecret(X)]");
}
