//! Removes protections of attempts that need more than an ordinary run: a worktree and its set-up command, or a stage that
//! the user's settings or an earlier run prepared.

use std::path::Path;

use super::super::cache_plants::{POISON, another_repository};
use super::super::git_plants::{add_commit_and_victim, git_does};
use super::super::hostile::Hostile;
use super::super::worktree_plants::{PACK, deeds, plant_rules};
use super::protections::{AFTER_PREPARATION, IN_WORKTREES, Protection};
use super::recording::Recording;
use crate::stage::assert_exit;

/// The words for the gate.
fn words_of(id: &str, recording: &Recording) -> Vec<String> {
    let hostile = &recording.hostile;
    let shell = |script: &str| ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    match id {
        "C27" => {
            let set_up = deeds(hostile, &hostile.stage.home().join("victim"));
            vec!["--setup".to_owned(), set_up, "/bin/true".to_owned()]
        }
        "C28" => shell(PACK),
        "C29" => shell("cat ~/.config/git/ignore"),
        "K5" => shell("cat ~/.cargo/registry/poison"),
        _ => panic!("{id} has no words"),
    }
}

/// Returns whether the attempt succeeded, by the agent's output and the outer host's home directory.
fn has_escaped(id: &str, printed: &str, home: &Path) -> bool {
    let git = home.join("work/project/.git");
    match id {
        "C27" => home.join("victim/made").exists() || git.join("hooks/made").exists(),
        "C28" => !git.join("refs/heads/loose").exists(),
        "C29" => printed.contains("harmless"),
        "K5" => printed.contains("EVIL"),
        _ => panic!("{id} has no evidence"),
    }
}

fn check(recording: &Recording, protections: &[Protection]) {
    for (number, protection) in protections.iter().enumerate() {
        for id in protection.attempts {
            let words = words_of(id, recording);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            for (name, off) in [("whole", &[][..]), ("off", protection.off)] {
                let (printed, home) =
                    recording.replay_words(&format!("{name}-{number}-{id}"), off, &words);
                let removed = if off.is_empty() { "nothing" } else { protection.name };
                let escaped = has_escaped(id, &printed, &home);
                eprintln!("{removed:<50} {id:<5} {}", if escaped { "escaped" } else { "held" });
                assert_eq!(escaped, !off.is_empty(), "{id} without {removed}: {printed}");
            }
        }
    }
}

#[test]
fn attempts_from_a_worktree_escape_when_their_protection_is_removed() {
    let prepare = |hostile: &Hostile| {
        add_commit_and_victim(hostile);
        git_does(&hostile.workspace(), &["branch", "loose"]);
        hostile.give_away();
    };
    let Some(recording) = Recording::of(&["--worktree"], prepare) else { return };
    check(&recording, IN_WORKTREES);
}

#[test]
fn attempts_that_something_prepared_escape_when_their_protection_is_removed() {
    let prepare = |hostile: &Hostile| {
        let victim = add_commit_and_victim(hostile);
        plant_rules(hostile, &victim);
        let another = another_repository(hostile);
        let prompt = format!("```agent\nshell {POISON}\n```\n");
        let run = ["run", "--agent", "simulated", &prompt, "-C", another.to_str().unwrap()];
        assert_exit(&hostile.command(&run).output().unwrap(), 0);
    };
    let Some(recording) = Recording::of(&[], prepare) else { return };
    check(&recording, AFTER_PREPARATION);
}
