//! Many agents, for the benchmark.

use serde_json::json;

use super::events::{completed, running, text, thinking, thought, user};
use super::{Agent, Run};

/// Creates `n_agents` with `n_runs` each. A run has about forty events: two tool calls with a result of `n_bytes`, and
/// text and thinking in small pieces.
pub fn many_agents(n_agents: usize, n_runs: usize, n_bytes: usize) -> impl Iterator<Item = Agent> {
    (0..n_agents).map(move |agent| {
        (0..n_runs).fold(
            Agent::new(&format!("agent-{agent:06}"), "/home/u/bulk"),
            |agent, number| {
                let id = format!("run-{}-{number}", agent.id);
                agent.with(bulk_run(&id, n_bytes))
            },
        )
    })
}

fn bulk_run(id: &str, n_bytes: usize) -> Run {
    let mut messages = vec![user(&format!("What about {id}?"))];
    messages.extend((0..12).map(|number| thinking(&format!("thought {number} "))));
    messages.push(thought(1200));
    for number in 0..2 {
        let (call, output) = (format!("{id}-{number}"), "lorem ipsum ".repeat(n_bytes / 12));
        messages.push(running(&call, "shell", json!({"command": "cat file"})));
        messages.push(completed(
            &call,
            "shell",
            json!({"command": "cat file"}),
            json!({"stdout": output}),
        ));
    }
    messages.extend((0..20).map(|number| text(&format!("word {number} "))));
    Run::new(id, messages)
}
