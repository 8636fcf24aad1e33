use super::*;

#[test]
fn a_failure_says_what_why_and_what_to_try_without_control_characters() {
    let error = CommandError::new(ExitCode::NotFound, "`a\u{1b}[2J` cannot be read")
        .because(io::Error::other("no such file"))
        .hint("look for it");
    assert_eq!(
        error.text(),
        "error: `a␛[2J` cannot be read\n  because no such file\n\nhint: look for it\n"
    );
}

#[test]
fn a_failed_step_is_the_cause_of_the_failure() {
    let step = || Err::<(), _>(io::Error::other("no such file"));
    let failed = step().or_fail(|| "the log cannot be read").unwrap_err();
    assert_eq!(failed.text(), "error: the log cannot be read\n  because no such file\n");
    assert_eq!(failed.exit_code(), ExitCode::Failed);
    let refused = step().or_fail_as(ExitCode::Usage, || "name another").unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Usage);
    assert_eq!(Ok::<_, io::Error>(7).or_fail(|| "never said").unwrap(), 7);
}
