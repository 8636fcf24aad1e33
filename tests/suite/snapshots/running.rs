//! `run` and `resume` with the simulated agent.

use super::Shown;
use crate::stage::Stage;

const SCRIPT: &str = "Tidy the notes.\n```agent\nsay Writing.\nwrite notes.txt <<END\none\ntwo\nEND\nshell exit 3\nsay Done.\n```";

#[test]
fn run_shows_how_the_agent_works() {
    for (name, flags) in [("good.100", &[][..]), ("good.json", &["--json"])] {
        let stage = Stage::of_fixed_width();
        let shown = Shown::live(&stage);
        let args = ["run", SCRIPT, "--agent", "simulated", "--name", "tidy"];
        shown.once(&format!("run/{name}"), &[&args, flags].concat());
    }
}
