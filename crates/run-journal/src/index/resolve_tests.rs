use pretty_assertions::assert_eq;

use super::*;
use crate::RunDirectory;
use crate::test_run::{TestState, spec};

const ONE: &str = "0191d0f6-0000-7000-8000-0123456789ab";
const TWO: &str = "0191d0f6-0001-7000-8000-cafe00000000";

fn two_runs() -> TestState {
    let test = TestState::new();
    for (id, name) in [(ONE, "tester"), (TWO, "0191d0f6-0000")] {
        let mut spec = spec(id.parse().unwrap());
        spec.name = Some(name.to_owned());
        RunDirectory::create(&test.state, &spec, b"x").unwrap();
    }
    test
}

fn resolved(state: &StateRoot, text: &str) -> String {
    match resolve(state, text) {
        Ok(run) => run.to_string(),
        Err(ResolveError::NotFound { .. }) => "not found".to_owned(),
        Err(ResolveError::Ambiguous { candidates, .. }) => {
            candidates.iter().map(RunId::to_string).collect::<Vec<_>>().join(" or ")
        }
        Err(err) => panic!("{err}"),
    }
}

#[test]
fn a_run_is_found_by_any_text_that_names_only_it() {
    let test = two_runs();
    let either = format!("{TWO} or {ONE}");
    for (text, expected) in [
        (ONE, ONE),
        ("-", TWO),
        ("0191d0f6-0001", TWO),
        ("0191D0F6-0001", TWO),
        ("0123", ONE),
        ("cafe0000", TWO),
        ("CAFE", TWO),
        ("tester", ONE),
        ("0191", &either),
        // This is one run's name and the beginning of another run's id.
        ("0191d0f6-0000", &either),
        ("caf", "not found"),
        ("test", "not found"),
        ("", "not found"),
        ("..", "not found"),
        ("0191d0f6-0000-7000-8000-000000000000", "not found"),
    ] {
        assert_eq!(resolved(&test.state, text), expected, "{text}");
    }
}

#[test]
fn without_runs_nothing_is_found_and_no_directory_is_created() {
    let test = TestState::new();
    for text in ["-", ONE, "0191", "name"] {
        assert_eq!(resolved(&test.state, text), "not found");
    }
    assert!(!test.state.path().exists());
}
