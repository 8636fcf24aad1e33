use std::io;

use run_protocol::RunId;

use super::*;

#[test]
fn an_error_of_another_crate_has_its_exit_code_its_sentence_and_its_hint() {
    let run: RunId = "0191d0f6-1111-7000-8000-0123456789ab".parse().unwrap();
    let unreadable = || io::Error::other("it is not a directory");
    let refused = |hint: Option<&str>| StartShimError::Refused {
        exit_code: ExitCode::Conflict as u8,
        message: "the workspace is in use".to_owned(),
        hint: hint.map(ToOwned::to_owned),
    };
    let errors: [(CommandError, ExitCode, &str); 9] = [
        (
            IndexError::Runs(unreadable()).into(),
            ExitCode::Failed,
            "error: cannot list the runs\n  because the runs directory could not be read\n  \
             because it is not a directory\n",
        ),
        (
            ResolveError::NotFound { text: "x".to_owned() }.into(),
            ExitCode::NotFound,
            "error: there is no run `x`\n\nhint: see all runs with `caretaker ps --all`\n",
        ),
        (
            ResolveError::Ambiguous { text: "0191".to_owned(), candidates: vec![run] }.into(),
            ExitCode::Usage,
            "error: `0191` matches 1 runs\n\nhint: use a longer prefix:\n\
             0191d0f6-1111-7000-8000-0123456789ab\n",
        ),
        (
            ResolveError::Runs(unreadable()).into(),
            ExitCode::Failed,
            "error: cannot list the runs\n  because the runs directory could not be read\n  \
             because it is not a directory\n",
        ),
        (PromptProblem::Empty.into(), ExitCode::Usage, "error: the prompt is empty\n"),
        (
            CreateRunError::FollowsNone(run).into(),
            ExitCode::NotFound,
            "error: the run was not created\n  \
             because run 0191d0f6-1111-7000-8000-0123456789ab, which must succeed first, is gone\n",
        ),
        (
            refused(Some("wait")).into(),
            ExitCode::Conflict,
            "error: the workspace is in use\n\nhint: wait\n",
        ),
        (refused(None).into(), ExitCode::Conflict, "error: the workspace is in use\n"),
        (
            StartShimError::Silent { log: "one\ntwo\n".to_owned() }.into(),
            ExitCode::SupervisorFailed,
            "error: the run's supervisor ended without a report\n  because two\n",
        ),
    ];
    for (error, code, text) in errors {
        assert_eq!((error.exit_code(), error.text().as_str()), (code, text));
    }
}
