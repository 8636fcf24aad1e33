//! Attempts that need a whole run: the repository is the attack, or the run does not survive it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use abuse::{Evidence, OTHER_SESSION};

use super::evidence::Snapshot;
use super::hostile::{Caller, Hostile, is_root, write};
use super::table::Verdict;
use crate::sandbox::strict::extend_strict;
use crate::stage::{assert_exit, stderr};

/// An attempt with one or several runs. `act` panics if the attempt succeeds.
pub(super) struct WholeRun {
    pub(super) id: &'static str,
    pub(super) does: &'static str,
    pub(super) callers: &'static [Caller],
    pub(super) act: fn(Caller) -> Verdict,
}

/// For attempts where it makes no difference which user the agent runs as.
pub(super) const ONE: &[Caller] = &[Caller::User];
pub(super) const ALL: &[Caller] = &Caller::ALL;

pub(super) const fn whole(
    id: &'static str,
    does: &'static str,
    act: fn(Caller) -> Verdict,
) -> WholeRun {
    WholeRun { id, does, callers: ALL, act }
}

const fn once(id: &'static str, does: &'static str, act: fn(Caller) -> Verdict) -> WholeRun {
    WholeRun { id, does, callers: ONE, act }
}

pub(super) const WHOLE_RUNS: &[WholeRun] = &[
    whole("C5", "ships .cursor as a link through bubblewrap's old root", |caller| {
        refused_repository(caller, |workspace, victim| {
            fs::remove_dir_all(workspace.join(".cursor")).unwrap();
            symlink(format!("/oldroot{}", victim.display()), workspace.join(".cursor")).unwrap();
        })
    }),
    whole("C6a", "ships mcp.json as a link through bubblewrap's old root", |caller| {
        refused_repository(caller, |workspace, victim| {
            let mcp_json = workspace.join(".cursor/mcp.json");
            fs::remove_file(&mcp_json).unwrap();
            symlink(format!("/oldroot{}/made", victim.display()), mcp_json).unwrap();
        })
    }),
    whole("C6b", "ships .git/hooks as a link to elsewhere", |caller| {
        refused_repository(caller, |workspace, victim| {
            fs::remove_dir_all(workspace.join(".git/hooks")).unwrap();
            symlink(victim, workspace.join(".git/hooks")).unwrap();
        })
    }),
    whole("C7", "swaps .cursor for a link between the check and the start", swapped),
    whole("C8", "works in a workspace where another agent is working", second_run),
    whole("C8b", "waits until a process on the host removes .cursor", |caller| {
        taken_away(caller, ".cursor", |workspace| {
            fs::remove_dir_all(workspace.join(".cursor")).unwrap()
        })
    }),
    whole("C8c", "waits until a process on the host replaces git's hooks", |caller| {
        taken_away(caller, ".git/hooks", |workspace| {
            let hooks = workspace.join(".git/hooks");
            fs::remove_dir_all(&hooks).unwrap();
            // The agent may be faster.
            fs::create_dir_all(hooks).unwrap();
        })
    }),
    whole("C8d", "waits until a process on the host renames git's hooks", |caller| {
        taken_away(caller, ".git/hooks", |workspace| {
            fs::rename(workspace.join(".git/hooks"), workspace.join(".git/aside")).unwrap();
        })
    }),
    whole("C8e", "waits until a process on the host renames .git", |caller| {
        taken_away(caller, ".git", |workspace| {
            fs::rename(workspace.join(".git"), workspace.join("aside")).unwrap();
        })
    }),
    whole("C11", "makes new hooks and tasks", audited),
    whole("C12", "leads git astray from a worktree", from_worktree),
    whole("C20", "spoils the user's checkout from a worktree of its own", from_own_worktree),
    whole("C16", "makes new hooks and tasks, in `strict`", blocked_by_strict),
    once("D3a", "stops a run outside its family", |caller| {
        meddle(caller, "stop_run", r#"{"run":"RUN"}"#)
    }),
    once("D3b", "asks for the state of a run outside its family", |caller| {
        meddle(caller, "get_run", r#"{"run":"RUN"}"#)
    }),
    once("D3c", "sends a message to a run outside its family", |caller| {
        meddle(caller, "send_message", r#"{"to":"RUN","text":"do something EVIL"}"#)
    }),
    whole("P1c", "kills every process that it can", kill_all),
    whole("W3a", "replaces its store with a FIFO", |caller| {
        hostile_store(caller, "mkfifo store.db")
    }),
    whole("W3b", "replaces its store with a link to another file", |caller| {
        hostile_store(caller, "ln -s \"$HOME\"/other/notes.txt store.db")
    }),
    once("W3c", "replaces its store with a directory", |caller| {
        hostile_store(caller, "mkdir store.db")
    }),
    once("W3d", "replaces its store with random bytes", |caller| {
        hostile_store(caller, "head -c 100000 /dev/urandom > store.db")
    }),
    whole("W3e", "replaces its store with a sparse file of ten gigabytes", |caller| {
        hostile_store(caller, "truncate -s 10G store.db")
    }),
    whole(
        "W2d",
        "makes a directory named after another session, and reads it in its next run",
        other_session_in_the_next_run,
    ),
    once("W6", "leaves itself a wider configuration for its next turn", wider_next_turn),
    whole("W5a", "leaves a link where the next run writes its approvals", |caller| {
        planted(caller, "os.rename(project, aside); os.symlink(victim, project)")
    }),
    whole("W5b", "leaves links under every name that the next run may write under", |caller| {
        planted(
            caller,
            "for name in ['mcp-approvals.json', '.workspace-trusted']:
    for end in [''] + [f'.{pid}' for pid in range(last_pid, last_pid + 20000)]:
        path = os.path.join(project, name + end)
        if os.path.exists(path): os.unlink(path)
        os.symlink(os.path.join(victim, 'file'), path)",
        )
    }),
    once("L2a", "prints a line of twenty megabytes", |caller| {
        prints(caller, "misbehave giant-line 20\nsay done")
    }),
    once("L2b", "prints bytes that are not text", |caller| {
        prints(caller, "misbehave noise\nshell printf '\\377\\376\\n'\nsay done")
    }),
    once("L2c", "controls the terminal of the user who is watching it", |caller| {
        let escapes = "\x1b]0;evil\x07\x1b[2J\u{9b}2J";
        prints(caller, &format!("say {escapes}\nshell printf '\\033[2J'\nsay done"))
    }),
    whole("T1", "leaves processes behind that ignore signals", left_behind),
    whole("T2", "continues without its supervisor", orphaned),
];

/// Hides from its parent, and ignores every signal that can be ignored.
const HIDE: &str =
    "(setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' > /dev/null 2>&1 &)";

pub(super) fn hostile(caller: Caller) -> Hostile {
    Hostile::new(caller).expect("the table leaves out callers that are impossible here")
}

pub(super) fn held(by: &str) -> Verdict {
    Verdict::Held(by.to_owned())
}

/// A repository that is itself the attack: Caretaker runs nothing, and creates nothing at the link's target.
fn refused_repository(caller: Caller, make: fn(&Path, &Path)) -> Verdict {
    let hostile = hostile(caller);
    let victim = hostile.stage.home().join("victim");
    fs::create_dir(&victim).unwrap();
    make(&hostile.workspace(), &victim);
    hostile.give_away();
    let output = hostile.play("shell touch it-ran", &[]);
    assert!(!output.status.success());
    assert!(!hostile.workspace().join("it-ran").exists(), "the agent ran");
    assert_eq!(
        fs::read_dir(&victim).unwrap().count(),
        0,
        "something was created in the victim's directory"
    );
    assert_eq!(hostile.stage.run_ids(), Vec::<String>::new());
    held("a refusal before the start")
}

/// A process on the host swaps `.cursor` after the shim has checked it and before bubblewrap mounts it.
fn swapped(caller: Caller) -> Verdict {
    if !is_root() {
        return Verdict::NotHere("the shim trusts only root's bubblewrap".to_owned());
    }
    let hostile = hostile(caller);
    let workspace = hostile.workspace();
    let bin = tempfile::tempdir().unwrap();
    fs::set_permissions(bin.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!(
        "#!/bin/sh\n\
         case \" $* \" in *' --args '*) mv '{0}/.cursor' '{0}/.aside'; ln -s .aside '{0}/.cursor' ;; esac\n\
         exec /usr/bin/bwrap \"$@\"\n",
        workspace.display()
    );
    let content = bin.path().join("content");
    fs::write(&content, script).unwrap();
    fs::set_permissions(&content, fs::Permissions::from_mode(0o755)).unwrap();
    crate::stage::programs::copy_program(&content, &bin.path().join("bwrap"));
    fs::set_permissions(bin.path().join("bwrap"), fs::Permissions::from_mode(0o755)).unwrap();

    let prompt = "```agent\nshell touch it-ran\n```\n";
    let mut command = hostile.command(&["run", "--agent", "simulated", prompt]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.path().display()));
    let output = command.output().unwrap();
    assert_exit(&output, 125);
    assert!(!workspace.join("it-ran").exists(), "the agent ran");
    assert_eq!(hostile.stage.ended()["outcome"], "sandbox_failed");
    held("a check of the mounts, before the release")
}

fn second_run(caller: Caller) -> Verdict {
    let hostile = hostile(caller);
    let first = hostile.detach("shell sleep 600", &[]);
    let output = hostile.play("shell touch it-ran", &[]);
    assert_exit(&output, 4);
    assert!(stderr(&output).contains(&first), "{}", stderr(&output));
    assert!(!hostile.workspace().join("it-ran").exists(), "the second agent ran");
    hostile.command(&["kill", "--now", &first]).output().unwrap();
    held("the workspace lock")
}

/// If a path on the host is removed or replaced, the mount over it disappears. If it is renamed, the mount moves with it.
/// The run must not continue without it.
fn taken_away(caller: Caller, what: &str, take: fn(&Path)) -> Verdict {
    let mut hostile = hostile(caller);
    let script = "shell[timeout=300s] while ! (mkdir -p .git/hooks && echo evil > .git/hooks/post-commit || mkdir .cursor) 2>/dev/null; do :; done; touch it-wrote; sleep 600";
    let run = hostile.detach(script, &[]);
    take(&hostile.workspace());
    let waited = hostile.command(&["wait", &run]).output().unwrap();
    assert_exit(&waited, 130);
    let (ended, path) = (hostile.stage.ended(), hostile.workspace().join(what));
    assert_eq!(ended["outcome"], "suspended", "{ended}");
    let named = format!("replaced `{}`", path.display());
    assert!(ended["why"].as_str().unwrap().contains(&named), "{ended}");
    let shown = hostile.command(&["show", &run]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("while the agent ran, so it was no longer protected"), "{shown}");
    hostile.dismiss_neighbour();
    hostile.stage.assert_no_survivors("after the run ended");
    held("the end of the run")
}

/// Names that the profile protects only if they exist. Here they do not exist.
const NEW: &str = "shell rm -f own; mkdir -p .devcontainer new/.vscode .husky; \
                   echo evil > .devcontainer/devcontainer.json; echo evil > .husky/pre-commit; \
                   mkdir -p .github/workflows; echo evil > .github/workflows/evil.yml; true\nsay done";

/// In a worktree, `.git` is a file that names the repository, whose hooks and configuration git obeys everywhere.
fn from_worktree(caller: Caller) -> Verdict {
    let hostile = hostile(caller);
    let (main, worktree) = (hostile.workspace(), hostile.stage.home().join("work/tree"));
    let git = |words: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"];
        let git = Command::new("git").args(identity).args(words).current_dir(&main).output();
        assert!(git.as_ref().unwrap().status.success(), "{}", stderr(&git.unwrap()));
    };
    // This file's text is not a valid configuration, so git would fail.
    fs::remove_file(main.join(".git/config.worktree")).unwrap();
    git(&["commit", "--quiet", "--allow-empty", "-m", "one"]);
    git(&["worktree", "add", "--quiet", worktree.to_str().unwrap()]);
    hostile.give_away();
    let watched = [worktree.join(".git"), main.join(".git/config"), main.join(".git/hooks")];
    let before = watched.each_ref().map(|path| Snapshot::of(path));
    let hooks = main.join(".git/hooks/pre-commit");
    let script = format!(
        "shell echo 'gitdir: /tmp' > .git; mv .git .old; rm -f .git; echo evil > {0}; \
         git config core.fsmonitor ./evil; echo evil >> {1}; mv {2} {2}.old; true\nsay done",
        hooks.display(),
        main.join(".git/config").display(),
        main.join(".git").display()
    );
    let output = hostile.play(&script, &["--workspace", worktree.to_str().unwrap()]);
    assert_exit(&output, 0);
    for (path, before) in watched.iter().zip(before) {
        assert_eq!(before.difference(&Snapshot::of(path)), None);
    }
    held("read-only mounts of the files that git obeys")
}

/// In the repository of a run's own worktree, the agent can write only the parts that commits need.
fn from_own_worktree(caller: Caller) -> Verdict {
    let hostile = hostile(caller);
    let main = hostile.workspace();
    let git = |words: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"];
        let git = Command::new("git").args(identity).args(words).current_dir(&main).output();
        assert!(git.as_ref().unwrap().status.success(), "{}", stderr(&git.unwrap()));
    };
    fs::remove_file(main.join(".git/config.worktree")).unwrap();
    fs::remove_dir_all(main.join(".git/hooks")).unwrap();
    fs::create_dir_all(main.join(".git/refs/heads")).unwrap();
    git(&["commit", "--quiet", "--allow-empty", "-m", "one"]);
    git(&["branch", "precious"]);
    git(&["pack-refs", "--all"]);
    hostile.give_away();
    let watched = [
        ".git/packed-refs",
        ".git/HEAD",
        ".git/index",
        ".git/hooks",
        ".git/config",
        ".git/commondir",
    ];
    let watched = watched.map(|name| main.join(name));
    let before = watched.each_ref().map(|path| Snapshot::of(path));
    // Both the repository itself and the directory of links that git inside the sandbox takes for the repository.
    let script = format!(
        "shell for place in {} \"$(git rev-parse --git-common-dir)\"; do cd $place && \
         for name in HEAD index config commondir packed-refs; do echo evil > $name; done; \
         mkdir hooks; echo evil > hooks/post-commit; done; true\n\
         shell for name in HEAD index config commondir packed-refs; do rm -f {}/$name; done; true\n\
         shell git branch -D precious; true\n\
         shell git -c user.name=a -c user.email=a@b commit --allow-empty -m two && git branch made\nsay done",
        main.join(".git").display(),
        main.join(".git").display()
    );
    let output = hostile.play(&script, &["--worktree"]);
    assert_exit(&output, 0);
    for (path, before) in watched.iter().zip(before) {
        assert_eq!(before.difference(&Snapshot::of(path)), None);
    }
    git(&["status"]);
    git(&["rev-parse", "--verify", "--quiet", "precious"]);
    // The allowed writes succeeded.
    git(&["rev-parse", "--verify", "--quiet", "made"]);
    held("a repository that is read-only except for commits")
}

fn audited(caller: Caller) -> Verdict {
    let hostile = hostile(caller);
    let output = hostile.play(NEW, &[]);
    assert_exit(&output, 0);
    let run = hostile.stage.run_ids().pop().unwrap();
    let journal = hostile.stage.journal(&run);
    let audit = journal.iter().find(|entry| entry.line["run"]["kind"] == "audit").unwrap();
    let findings = audit.line["run"]["findings"].as_array().unwrap();
    let is_told = |path: &str| findings.iter().any(|finding| finding["path"] == path);
    for path in
        [".devcontainer/devcontainer.json", ".husky/pre-commit", ".github/workflows/evil.yml"]
    {
        assert!(is_told(path), "the audit does not report {path}: {}", audit.line);
    }
    held("the audit after the run")
}

fn blocked_by_strict(caller: Caller) -> Verdict {
    if caller == Caller::Root {
        return Verdict::NotHere("`strict` is not for root".to_owned());
    }
    let hostile = hostile(caller);
    extend_strict(&hostile.stage, "strict-here", "[limits]\nrequired = false\n");
    hostile.give_away();
    let output = hostile.play(NEW, &["--profile", "strict-here"]);
    assert_exit(&output, 0);
    for name in [".devcontainer", ".husky", ".github"] {
        assert!(!hostile.workspace().join(name).exists(), "{name} was made");
    }
    held("empty mounts in their place")
}

/// Uses one of Caretaker's tools on another of the user's runs.
fn meddle(caller: Caller, tool: &str, arguments: &str) -> Verdict {
    let hostile = hostile(caller);
    let other = hostile.stage.home().join("other");
    let stranger = hostile.detach("shell sleep 600", &["--workspace", other.to_str().unwrap()]);
    let call = format!("mcp caretaker {tool} {}", arguments.replace("RUN", &stranger));
    let output = hostile.play(&format!("{call}\nsay done"), &[]);
    assert_exit(&output, 0);

    let run = hostile.stage.run_ids().pop().unwrap();
    let of_kind = |run: &str, kind: &str| {
        let journal = hostile.stage.journal(run).into_iter();
        journal.filter(|entry| entry.line["run"]["kind"] == kind).count()
    };
    assert_eq!(of_kind(&run, "mcp_call"), 1, "the tool was not called");
    let told = fs::read_to_string(hostile.stage.journal_path(&stranger)).unwrap();
    assert!(!told.contains("EVIL"), "{told}");
    assert_eq!(of_kind(&stranger, "stop_requested") + of_kind(&stranger, "ended"), 0);
    // The agent learns nothing about the state of the other run.
    let seen = fs::read_to_string(hostile.stage.journal_path(&run)).unwrap();
    assert!(!seen.contains("\"state\"") && !seen.contains("\\\"state\\\""), "{seen}");
    hostile.command(&["kill", "--now", &stranger]).output().unwrap();
    held("a tool that knows only its own family")
}

fn kill_all(caller: Caller) -> Verdict {
    let hostile = hostile(caller);
    let output = hostile.play("shell kill -9 -1\nsay done", &[]);
    assert!(!output.status.success(), "{}", stderr(&output));
    let ended = hostile.stage.ended();
    assert_eq!(ended["outcome"], "failed", "{ended}");
    hostile.look(Evidence::NeighbourLives).unwrap();
    held("its own process namespace")
}

/// After the run, Caretaker reads the store on the host. The store must neither block nor mislead it.
fn hostile_store(caller: Caller, make: &str) -> Verdict {
    let hostile = hostile(caller);
    let agent = hostile.stage.home().join(".local/bin/agent");
    let content = hostile.stage.root().join("agent-content");
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\ncd \"$HOME\"/.cursor/chats/{}/*/ && rm -rf store.db* && {make} || exit 9\n\
         echo '{{\"type\":\"system\",\"subtype\":\"init\"}}'\n\
         echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"\"}}'\n",
        hostile.world().buckets[0],
    );
    fs::write(&content, script).unwrap();
    crate::stage::programs::copy_program(&content, &agent);
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    hostile.give_away();
    let agent = agent.to_str().unwrap();
    let output = hostile.command(&["run", "--agent", agent, "go"]).output().unwrap();
    assert!(output.status.success(), "{} {}", hostile.stage.ended(), stderr(&output));
    let run = hostile.stage.run_ids().pop().unwrap();
    let journal = hostile.stage.journal(&run);
    let of_kind = |kind: &str| journal.iter().find(|entry| entry.line["run"]["kind"] == kind);
    let checkpoint = &of_kind("checkpoint").expect("the shim checked the store").line["run"];
    assert_ne!(checkpoint["resumable"], "yes", "{checkpoint}");
    let text = fs::read_to_string(hostile.stage.journal_path(&run)).unwrap();
    assert!(!text.contains(&hostile.world().secret), "{text}");
    held("a reader that checks the file first")
}

/// The shim writes files for the session's next run. They must not go where a link from the last run points.
fn planted(caller: Caller, make: &str) -> Verdict {
    let hostile = hostile(caller);
    let victim = hostile.stage.home().join("victim");
    write(&victim.join("file"), "the user's own");
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    let last_pid = load.split_whitespace().last().unwrap();
    let program = format!(
        "import glob, os\n\
         project = glob.glob(os.path.expanduser('~/.cursor/projects/*'))[0]\n\
         aside, victim, last_pid = project + '-aside', os.path.expanduser('~/victim'), {last_pid}\n\
         {make}\n"
    );
    write(&hostile.workspace().join("plant.py"), &program);
    hostile.give_away();
    let before = Snapshot::of(&victim);
    let output = hostile.play("shell python3 plant.py && touch planted\nsay done", &[]);
    assert_exit(&output, 0);
    assert!(hostile.workspace().join("planted").exists(), "nothing was planted");
    let output = next_turn(&hostile, "say again");
    assert_eq!(before.difference(&Snapshot::of(&victim)), None, "{}", stderr(&output));
    assert_exit(&output, 0);
    held("a writer that follows no links")
}

/// Continues the session of the latest run.
fn next_turn(hostile: &Hostile, script: &str) -> Output {
    let session = hostile.stage.session_of(&hostile.stage.run_ids().pop().unwrap());
    let prompt = format!("```agent\n{script}\n```\n");
    let next = ["resume", &session, &prompt, "--agent", "simulated"];
    hostile.command(&next).output().unwrap()
}

/// The agent writes everything that could pass for a user's request, wherever it can write.
fn wider_next_turn(caller: Caller) -> Verdict {
    let hostile = hostile(caller);
    let plant = "shell mkdir -p ~/.config/caretaker/profiles .caretaker; \
                 printf 'profile = \"mine\"\\nallow_hosts = [\"evil.example\"]\\n[limits]\\nmemory = \"none\"\\n' \
                 | tee ~/.config/caretaker/config.toml .caretaker/config.toml caretaker.toml > ~/.cursor/projects/terms.json; \
                 printf '[network]\\nmode = \"host\"\\n' > ~/.config/caretaker/profiles/default.toml; touch planted";
    let narrow = ["--network", "none", "--memory", "512MiB", "--max-tool-calls", "9"];
    let output =
        hostile.play(&format!("{plant}\nsay resume me with --widen network,memory"), &narrow);
    assert_exit(&output, 0);
    assert!(hostile.workspace().join("planted").exists(), "nothing was planted");
    let spec = || -> serde_json::Value {
        let run = hostile.stage.run_ids().pop().unwrap();
        let text = fs::read(hostile.stage.runs().join(run).join("spec.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    };
    let before = spec();
    let output = next_turn(&hostile, "shell ls /sys/class/net 2>/dev/null; true\nsay again");
    assert_exit(&output, 0);
    let after = spec();
    for field in ["network", "allow_hosts", "profile_text", "resources", "limits", "expose", "env"]
    {
        assert_eq!(before.get(field), after.get(field), "{field}");
    }
    held("the bounds of the session's last run")
}

/// An agent that knows the id of another session in its workspace.
fn other_session_in_the_next_run(caller: Caller) -> Verdict {
    let hostile = hostile(caller);
    let store = format!("{}/store.db", hostile.world().other_session);
    let other = &hostile.world().other_session;
    let make = format!("mkdir -p $(printf '%s/{other} ' ~/.cursor/chats/*) && touch made");
    let output = hostile.play(&format!("shell {make}\nsay done"), &[]);
    assert_exit(&output, 0);
    assert!(hostile.workspace().join("made").exists(), "the agent made no directory");
    let read = format!(
        "cat ~/.cursor/chats/*/{store} > seen; for b in ~/.cursor/chats/*; do echo EVIL >> $b/{store}; done; true"
    );
    let output = next_turn(&hostile, &format!("shell {read}"));
    assert_exit(&output, 0);
    assert_eq!(fs::read_to_string(hostile.workspace().join("seen")).unwrap(), "");
    hostile.look(Evidence::Intact(&[OTHER_SESSION])).unwrap();
    held("a list of its own sub-agents")
}

/// Caretaker keeps the output, but displays it in a form that cannot control a terminal.
fn prints(caller: Caller, script: &str) -> Verdict {
    let hostile = hostile(caller);
    let output = hostile.play(script, &[]);
    assert_exit(&output, 0);
    assert_eq!(hostile.stage.ended()["outcome"], "succeeded");
    let views = [&["tail", "-"][..], &["show", "-"]];
    let views = views.map(|view| hostile.command(view).output().unwrap().stdout);
    for shown in views.iter().chain([&output.stdout]) {
        let text = String::from_utf8_lossy(shown);
        let steers = |c: char| c.is_control() && !['\n', '\t', '\r'].contains(&c);
        assert!(!text.contains(steers), "{text:?}");
        assert!(shown.len() < 4 << 20, "{} bytes shown", shown.len());
    }
    held("a view that escapes control characters")
}

fn left_behind(caller: Caller) -> Verdict {
    let mut hostile = hostile(caller);
    let script = format!(
        "shell {HIDE}; {HIDE}; true\nmisbehave unkillable-child\nmisbehave linger\nsay done"
    );
    let output = hostile.play(&script, &[]);
    assert_exit(&output, 0);
    hostile.dismiss_neighbour();
    hostile.stage.assert_no_survivors("after the run ended");
    held("the death of the first process in its namespace")
}

fn orphaned(caller: Caller) -> Verdict {
    let mut hostile = hostile(caller);
    let run = hostile.detach(&format!("shell {HIDE}; {HIDE}; sleep 600"), &[]);
    let shim = i32::try_from(hostile.stage.shim_pid(&run)).unwrap();
    let shim = rustix::process::Pid::from_raw(shim).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    hostile.dismiss_neighbour();
    hostile.stage.assert_no_survivors("after its supervisor died");
    held("death with the supervisor")
}

/// Returns a panic's message.
pub(super) fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it went wrong").to_owned()
}
