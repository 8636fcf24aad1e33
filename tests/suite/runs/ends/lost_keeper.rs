//! A run without a sandbox whose shim and keeper die together: its agent lives on, and the next run ends it.

use super::process::Process;
use crate::stage::{Stage, assert_exit};

#[test]
fn no_run_starts_beside_an_agent_that_lost_its_shim_and_its_keeper() {
    let stage = Stage::new();
    let run = stage.detach("shell sleep 60", &["--sandbox", "off", "--force"]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let (shim, keeper) = (Process::shim(&stage, &run), Process::first(&stage, &run));
    let agent = keeper.any_child().unwrap();
    // A stopped keeper cannot end its agent when the shim dies.
    keeper.stop();
    shim.kill();
    keeper.kill();
    assert!(!agent.has_ended(), "this test needs a survivor");
    let next = stage.play("say I am the next one.", &["--sandbox", "off", "--force"]);
    let survived = !agent.has_ended();
    agent.kill();
    assert!(!survived, "a second run worked while the agent was alive");
    assert_exit(&next, 0);
    stage.assert_no_survivors("a run that lost its supervisor and its keeper");
}
