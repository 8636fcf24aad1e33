use std::fs;

use pretty_assertions::assert_eq;
use run_protocol::Budget;

use super::*;
use crate::admit::tests::Stage;

#[test]
fn a_refused_request_does_not_change_its_group_s_budget() {
    let stage = Stage::new(&[]);
    let host = &stage.host;
    let old = Budget { tokens: Some(5), ..Budget::default() };
    GroupRecord::update(&host.state, "night", |record| record.budget = Some(old)).unwrap();
    // A file blocks the directory in which Caretaker prepares new runs, so it cannot create a run.
    fs::create_dir_all(host.state.runs()).unwrap();
    fs::write(host.state.runs().join(".creating"), "").unwrap();
    let request = RunRequest {
        prompt: Some("hello".to_owned()),
        workspace: Some(stage.workspace()),
        agent: Some(SIMULATED.into()),
        group: Some("night".parse().unwrap()),
        group_budget: Some("tokens=9".parse().unwrap()),
        ..RunRequest::default()
    };
    let refused = queue_request(host, Path::new("/usr/bin/caretaker"), &request, None);
    assert!(refused.is_err());
    assert_eq!(GroupRecord::read(&host.state, "night").budget, Some(old));
}
