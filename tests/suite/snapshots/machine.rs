//! `doctor`, `completions` and `man`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::past;
use super::{Form, Shown, output_in};
use crate::runs::trial;
use crate::stage::Stage;

/// Makes a stage with past runs and a directory for sockets.
fn stage() -> Stage {
    let stage = past::stage();
    fs::create_dir(stage.root().join("run")).unwrap();
    stage
}

/// Leaves out everything that depends on the machine.
fn shown(stage: &Stage) -> Shown<'_> {
    Shown::of(stage)
        .also(r"(?m)^[✓!] (bubblewrap|privileges|limits) .*\n(?:             .*\n)*", "? $1: depends on this machine\n")
        .also(
            r#"("id": "(?:bubblewrap|privileges|limits)",\s*)"status": "[a-z]+",\s*"summary": "[^"]*"(?:,\s*"fix": "[^"]*")?"#,
            r#"$1"status": <depends on this machine>"#,
        )
        .also(r"\b[0-9.]+ [KMGT]iB free\b", "<n> free")
        .also(r"(?m)(caretaker |^v)\d+\.\d+\.\d+\b", "$1<version>")
}

fn set_mode(stage: &Stage, mode: u32) {
    let state = stage.root().join("state");
    fs::set_permissions(state, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn doctor_finds_that_all_is_well() {
    let stage = stage();
    set_mode(&stage, 0o700);
    let shown = shown(&stage);
    shown.command("doctor/well", &["doctor", "--agent", "simulated"]);
    shown.once("doctor/unknown-flag", &["doctor", "--fix"]);
}

#[test]
fn doctor_says_what_to_change() {
    let stage = stage();
    // A run from 2050, as if the clock had gone back.
    fs::create_dir(stage.runs().join("024bcdc5-5c00-7000-8000-00000000a001")).unwrap();
    set_mode(&stage, 0o755);
    let profiles = stage.home().join(".config/caretaker/profiles");
    fs::create_dir_all(&profiles).unwrap();
    let alone = "extends = \"default\"\ndescription = \"alone\"\n[network]\nmode = \"none\"\n";
    fs::write(profiles.join("alone.toml"), alone).unwrap();
    stage.configure("profile = \"alone\"\nmin_free = \"900TiB\"\n");
    let shown = shown(&stage);
    shown.command("doctor/warnings", &["doctor", "--agent", "/opt/no-such-agent"]);
    stage.configure("profile = \"mine\"\n");
    set_mode(&stage, 0o777);
    shown.human("doctor/no-profile", &["doctor", "--agent", "simulated"]);
    stage.configure("min_fre = 0\n");
    shown.json("doctor/bad-config", &["doctor", "--agent", "simulated"]);
    // Neither bubblewrap nor an agent is installed, and the socket paths are too long.
    let mut command = stage.caretaker(&["doctor"]);
    command.env("PATH", stage.root().join("no-programs"));
    let sockets = stage.root().join("r".repeat(100));
    fs::create_dir(&sockets).unwrap();
    command.env("XDG_RUNTIME_DIR", sockets);
    let form = Form::Terminal { columns: 100 };
    let output = output_in(command, form);
    shown.text("doctor/nothing-installed", &shown.page(&["doctor"], &output, form));
}

#[test]
fn doctor_looks_at_a_project() {
    let stage = stage();
    set_mode(&stage, 0o700);
    let (inside, outside) = (stage.home().join(".local/bin"), stage.home().join("tools"));
    for directory in [&inside, &outside, &stage.home().join(".npm/_cacache")] {
        fs::create_dir_all(directory).unwrap();
    }
    for program in
        [inside.join("node"), inside.join("npm"), inside.join("python3"), outside.join("go")]
    {
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::var_os("PATH").unwrap();
    let mut everywhere = std::env::split_paths(&path).map(|directory| directory.join("bwrap"));
    let bwrap = everywhere.find(|path| path.is_file()).unwrap();
    std::os::unix::fs::symlink(bwrap, inside.join("bwrap")).unwrap();
    for manifest in ["package.json", "requirements.txt", "go.mod", "pom.xml"] {
        fs::write(stage.workspace().join(manifest), "").unwrap();
    }
    let path = std::env::join_paths([&outside, &inside]).unwrap();
    let args = ["doctor", "--agent", "simulated", "-C", "."];
    let shown = shown(&stage);
    for (name, args, form) in [
        ("doctor/project.100", args.to_vec(), Form::Terminal { columns: 100 }),
        ("doctor/project.json", [&args[..], &["--json"]].concat(), Form::Json),
    ] {
        let mut command = stage.caretaker(&args);
        command.env("PATH", &path);
        let output = output_in(command, form);
        shown.text(name, &shown.page(&args, &output, form));
    }
}

#[test]
fn doctor_tries_an_agent() {
    let stage = stage();
    set_mode(&stage, 0o700);
    let shown = shown(&stage).also(r"[0-9a-f-]{36}", "<run>");
    shown.once("doctor/trial", &["doctor", "--trial", "--agent", "simulated"]);
    shown.json("doctor/trial", &["doctor", "--trial", "--agent", "simulated"]);
    let does = "sed '/^mcp /d' | CURSOR_CONFIG_DIR=/tmp/elsewhere \"$agent\" \"$@\"";
    let agent = trial::install(&stage, "2026.10.01-abc1234", does);
    let args = ["doctor", "--trial", "--yes", "--agent", &agent];
    let page = |args: &[&str]| {
        let mut command = stage.caretaker(args);
        command.env("CURSOR_API_KEY", "any-key");
        let output = output_in(command, Form::Terminal { columns: 100 });
        shown.page(args, &output, Form::Terminal { columns: 100 })
    };
    shown.text("doctor/trial-failed", &page(&args));
    shown.text("doctor/trial-unasked", &page(&["doctor", "--trial", "--agent", &agent]));
    stage.configure("min_free = \"900TiB\"\n");
    shown.once("doctor/trial-not-started", &["doctor", "--trial", "--agent", "simulated"]);
    shown.once("doctor/report-alone", &["doctor", "--report", "trial.json"]);
}

/// Returns every command and subcommand in bash's completions.
fn commands_of(bash: &str) -> Vec<String> {
    let cases = bash.lines().map(str::trim).filter_map(|line| line.strip_suffix(')'));
    let mut commands: Vec<String> = cases
        .filter(|case| case.starts_with("caretaker"))
        .filter_map(|case| case.split_once(','))
        .map(|(parent, command)| format!("{} {command}", parent.replace("__subcmd__", " ")))
        // `help` lists every command again.
        .filter(|command| !command.contains(" help "))
        .collect();
    commands.sort();
    commands
}

#[test]
fn completions_know_every_command() {
    let stage = Stage::of_fixed_width();
    let shown = shown(&stage);
    let script = |shell: &str| {
        let output = stage.output(&["completions", shell]);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let commands = commands_of(&script("bash"));
    shown.text("completions/bash", &commands.join("\n"));
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = script(shell);
        for command in &commands {
            let name = command.rsplit(' ').next().unwrap();
            assert!(script.contains(name), "{shell} does not complete {command}");
        }
    }
    shown.once("completions/unknown-shell", &["completions", "tcsh"]);
    shown.once("completions/no-shell", &["completions"]);
}

#[test]
fn man_prints_the_manual_page_and_writes_those_of_all_commands() {
    let stage = Stage::of_fixed_width();
    let shown = shown(&stage);
    shown.once("man/caretaker", &["man"]);
    shown.once("man/written", &["man", "pages"]);
    let pages = stage.workspace().join("pages");
    let names = fs::read_dir(&pages).unwrap().map(|page| page.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    shown.text("man/pages", &names.join("\n"));
    let page = fs::read_to_string(pages.join("caretaker-undo.1")).unwrap();
    shown.text("man/undo", &page);
    fs::write(stage.workspace().join("file"), "").unwrap();
    shown.once("man/not-written", &["man", "file"]);
}
