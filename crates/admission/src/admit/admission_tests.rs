use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use clap::Parser;
use pretty_assertions::assert_eq;
use run_protocol::{AgentKind, BytesPath, NetworkMode, RunLimits, ToolApproval};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::host::environment::tests::environment_of;

/// A run's options as the user types them.
#[derive(Debug, Parser)]
struct Typed {
    #[command(flatten)]
    request: RunRequest,
}

/// A host with a workspace, and a few extra variables.
pub struct Stage {
    root: TempDir,
    pub host: Host,
}

impl Stage {
    pub fn new(variables: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let physical = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(physical.join("home/work")).unwrap();
        let (home, state) = (physical.join("home"), physical.join("state"));
        // The first value of a variable wins.
        let mut all: Vec<(&str, &Path)> =
            variables.iter().map(|(name, value)| (*name, Path::new(*value))).collect();
        // No git on PATH, because a test must not fork while another test checks which processes hold its files.
        let usual = Path::new("/nowhere");
        all.extend([("HOME", home.as_path()), ("CARETAKER_HOME", &state), ("PATH", usual)]);
        Self { root, host: Host::new(environment_of(&all)) }
    }

    pub fn workspace(&self) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap().join("home/work")
    }

    /// Prepares the admission of `run` with these arguments, without starting anything.
    pub(super) fn with<T>(
        &self,
        config: &str,
        args: &[&str],
        then: impl FnOnce(Admission<'_, '_>) -> T,
    ) -> T {
        let workspace = self.workspace();
        let typed = Typed::try_parse_from(["run"].iter().chain(args)).unwrap();
        let config = Config::parse(config).unwrap();
        let program = Path::new("/usr/bin/caretaker");
        let conversation = Conversation::New { workspace: Some(workspace) };
        let context = RunContext::new(conversation, StartMode::Direct { waits: false });
        let (host, request) = (&self.host, &typed.request);
        then(Admission::new(host, &config, program, request, context).unwrap())
    }

    fn spec(&self, config: &str, args: &[&str]) -> RunSpec {
        self.spec_after(None, config, args).unwrap()
    }

    /// The spec of a run that continues another run, or that begins a session.
    pub(crate) fn spec_after(
        &self,
        before: Option<&RunSpec>,
        config: &str,
        args: &[&str],
    ) -> Result<RunSpec, CommandError> {
        let args = [args, &["--agent", "simulated"]].concat();
        self.with(config, &args, |admission| {
            let before = before.cloned().map(Box::new);
            Admission { before, ..admission }.hypothetical()
        })
    }
}

fn agent(kind: AgentKind) -> AgentProgram {
    let (program, leading_arguments) = ("/x".into(), vec![]);
    AgentProgram { kind, program, leading_arguments, expose: vec![], kept: None, version: None }
}

#[test]
fn flags_win_over_the_configuration() {
    let stage = Stage::new(&[]);
    let config = "model = 'auto'\nlabels = { team = 'core', env = 'ci' }\n\
                  [limits]\nidle = '5m'\nwall = '1h'\ntool = '3h'\n";
    let spec = stage.spec(
        config,
        &["--model", "gpt-5", "--label", "team=web", "--timeout", "10m", "--no-force", "--stream"],
    );
    assert_eq!(spec.model.as_deref(), Some("gpt-5"));
    assert_eq!(
        spec.labels.into_iter().collect::<Vec<_>>(),
        [("env".to_owned(), "ci".to_owned()), ("team".to_owned(), "web".to_owned())]
    );
    let limits = &spec.limits;
    assert_eq!((limits.wall_ms, limits.idle_ms, limits.tool_ms), (600_000, 300_000, 10_800_000));
    assert_eq!((spec.tool_approval, spec.partial_output), (ToolApproval::AllowList, true));
}

#[test]
fn without_flags_a_run_follows_the_configuration() {
    let stage = Stage::new(&[]);
    let spec = stage.spec("model = 'auto'\n", &[]);
    assert_eq!((spec.model.as_deref(), spec.profile.as_str()), (Some("auto"), "default"));
    assert_eq!(spec.limits, RunLimits::default());
    assert_eq!((spec.tool_approval, spec.session_start), (ToolApproval::Force, SessionStart::New));
    assert_eq!(Path::new(&spec.workspace), stage.workspace());
    assert!(spec.profile_text.contains("[workspace]"));
}

#[test]
fn the_spec_records_only_variables_that_the_profile_lets_in() {
    let stage = Stage::new(&[
        ("TZ", "Europe/London"),
        ("LC_ALL", "en_GB.UTF-8"),
        ("CURSOR_API_KEY", "key-abcdef"),
        ("AWS_SECRET_ACCESS_KEY", "aws-abcdef"),
        ("LD_PRELOAD", "/x.so"),
        ("SIMULATED_AGENT_MISBEHAVE", "no-result"),
    ]);
    let spec = stage.spec("", &["--env", "RUST_LOG=debug"]);
    let names: Vec<&str> = spec.env.keys().map(String::as_str).collect();
    assert_eq!(names, ["LC_ALL", "PATH", "RUST_LOG", "SIMULATED_AGENT_MISBEHAVE", "TZ"]);
    let written = serde_json::to_string(&spec).unwrap();
    assert!(!written.contains("abcdef"), "{written}");
}

#[test]
fn keys_reach_the_shim_and_the_simulated_agent_needs_none() {
    let secrets = |stage: &Stage, kind: AgentKind| {
        let roots = stage.host.environment.cursor_roots().unwrap();
        let admitted = stage.with("", &[], |admission| {
            admission.shim_environment(&agent(kind), &roots, &admission.profile().unwrap().profile)
        });
        admitted.map(|environment| environment.secrets).map_err(|error| error.exit_code())
    };
    let key = |value: &str| Ok(vec![("CURSOR_API_KEY".to_owned(), value.to_owned())]);
    let with_key = Stage::new(&[("CURSOR_API_KEY", "k1")]);
    assert_eq!(secrets(&with_key, AgentKind::Cursor), key("k1"));
    assert_eq!(secrets(&with_key, AgentKind::Simulated), key("k1"));

    let without = Stage::new(&[]);
    assert_eq!(secrets(&without, AgentKind::Simulated), key(SIMULATED_KEY));
    assert_eq!(secrets(&without, AgentKind::Cursor), Err(ExitCode::AuthenticationMissing));
    let login = without.host.environment.home.join(".config/cursor/auth.json");
    fs::create_dir_all(login.parent().unwrap()).unwrap();
    fs::write(&login, "{}").unwrap();
    assert_eq!(secrets(&without, AgentKind::Cursor), Err(ExitCode::AuthenticationMissing));
    fs::write(&login, r#"{"accessToken":"a"}"#).unwrap();
    assert_eq!(secrets(&without, AgentKind::Cursor), Ok(vec![]));
    let found = |stage: &Stage, kind: AgentKind| {
        let roots = stage.host.environment.cursor_roots().unwrap();
        stage.with("", &[], |admission| admission.login_file(&agent(kind), &roots))
    };
    assert_eq!(found(&without, AgentKind::Cursor), Some(login));
    assert_eq!(found(&without, AgentKind::Simulated), None);
    assert_eq!(found(&with_key, AgentKind::Cursor), None);
}

#[test]
fn a_path_to_expose_must_exist_unless_the_configuration_names_it() {
    let stage = Stage::new(&[]);
    let config = "expose = ['/usr/share', '/no/such/thing']\n";
    let spec = stage.spec(config, &["--expose", "/usr/lib"]);
    assert_eq!(spec.expose, ["/usr/share", "/usr/lib"].map(BytesPath::from));
    let missing = stage
        .with("", &["--expose", "/no/such/thing"], |admission| admission.exposed().unwrap_err());
    assert_eq!(missing.exit_code(), ExitCode::NotFound);
}

#[test]
fn hosts_come_from_the_flags_and_the_configuration() {
    let stage = Stage::new(&[]);
    let config = "allow_hosts = ['registry.example.org', '*.example.net:8443']\n";
    let spec = stage.spec(config, &["--allow-host", "git.example.org:22"]);
    let expected = ["registry.example.org", "*.example.net:8443", "git.example.org:22"];
    assert_eq!((spec.allow_hosts, spec.network), (expected.map(ToOwned::to_owned).into(), None));
    let spec = stage.spec("", &["--network", "none"]);
    assert_eq!((spec.allow_hosts, spec.network), (vec![], Some(NetworkMode::None)));
}

#[test]
fn the_host_s_proxy_goes_to_the_supervisor_or_to_an_agent_on_the_host_s_network() {
    let proxy = "http://ada:secret-word@proxy.example:3128";
    let stage = Stage::new(&[("https_proxy", proxy), ("NO_PROXY", "localhost")]);
    let told = |args: &[&str]| {
        let roots = stage.host.environment.cursor_roots().unwrap();
        let environment = stage.with("", args, |admission| {
            admission
                .shim_environment(
                    &agent(AgentKind::Simulated),
                    &roots,
                    &admission.profile().unwrap().profile,
                )
                .unwrap()
        });
        let spec = stage.spec("", args);
        let names = spec.env.into_keys().filter(|name| is_proxy_variable(name));
        (environment.proxy, names.collect::<Vec<_>>())
    };
    assert_eq!(told(&[]), (Some(proxy.to_owned()), vec![]));
    assert_eq!(told(&["--network", "none"]), (None, vec![]));
    let names = ["NO_PROXY", "https_proxy"].map(ToOwned::to_owned).to_vec();
    assert_eq!(told(&["--network", "host"]), (None, names));
}

#[test]
fn a_proxy_that_cannot_be_used_is_refused_without_repeating_its_password() {
    let stage = Stage::new(&[("HTTPS_PROXY", "socks5://ada:secret-word@proxy.example:1080")]);
    let roots = stage.host.environment.cursor_roots().unwrap();
    let refused = |args: &[&str]| {
        stage.with("", args, |admission| {
            admission
                .shim_environment(
                    &agent(AgentKind::Simulated),
                    &roots,
                    &admission.profile().unwrap().profile,
                )
                .err()
        })
    };
    let error = refused(&[]).unwrap();
    assert_eq!(error.exit_code(), ExitCode::Usage);
    let message = error.message_with_causes();
    assert!(message.contains("HTTPS_PROXY") && !message.contains("secret-word"), "{message}");
    assert!(refused(&["--network", "host"]).is_none());
}

#[test]
fn a_secret_is_read_once_in_one_admission() {
    let stage = Stage::new(&[]);
    let file = stage.root.path().join("key");
    fs::write(&file, "value-0123456789").unwrap();
    let secret = format!("TOKEN=file:{}", file.display());
    let roots = stage.host.environment.cursor_roots().unwrap();
    let (names, environment) = stage.with("", &["--secret", &secret], |admission| {
        fs::remove_file(&file).unwrap();
        let profile = admission.profile().unwrap().profile;
        let agent = agent(AgentKind::Simulated);
        let environment = admission.shim_environment(&agent, &roots, &profile).unwrap();
        assert_eq!(admission.login_file(&agent, &roots), None);
        (admission.secret_names(), environment)
    });
    assert_eq!(names, ["TOKEN"]);
    let given = environment.secrets.into_iter().find(|(name, _)| name == "TOKEN");
    assert_eq!(given, Some(("TOKEN".to_owned(), "value-0123456789".to_owned())));
}

#[test]
fn an_agent_in_the_repository_is_refused_for_its_worktrees_too() {
    let stage = Stage::new(&[]);
    let repository = stage.workspace();
    let worktree = stage.host.state.worktrees().join("one");
    fs::create_dir_all(&worktree).unwrap();
    let origin =
        json!({"v": 1, "repository": repository, "branch": "b", "base": "c", "created_ms": 1});
    fs::write(worktree.with_extension("json"), origin.to_string()).unwrap();
    let program = repository.join("bin/agent");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(&program, "#!/bin/sh\necho 1.0\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    for workspace in [&repository, &worktree] {
        let workspace = WorkspacePath::new(&fs::canonicalize(workspace).unwrap()).unwrap();
        let refused =
            stage.with("", &["--agent", program], |admission| admission.agent(&workspace));
        assert_eq!(refused.unwrap_err().exit_code(), ExitCode::Usage, "{workspace:?}");
    }
}

#[test]
fn a_continued_run_keeps_its_memory_even_if_the_automatic_limit_changes() {
    let stage = Stage::new(&[]);
    let machine = run_shim::machine_memory().unwrap();
    let one = stage.spec_after(None, "[queue]\ncap = 1\n", &[]).unwrap();
    assert_eq!(one.resources.memory_bytes, (machine / 2).max(2 << 30).min(machine));
    let many = stage.spec_after(None, "[queue]\ncap = 100000\n", &[]).unwrap();
    assert_eq!(many.resources.memory_bytes, (2 << 30).min(machine));
    let again = stage.spec_after(Some(&one), "[queue]\ncap = 100000\n", &[]).unwrap();
    assert_eq!(again.resources.memory_bytes, one.resources.memory_bytes);
    // A profile that was written before `auto` existed keeps its size.
    let text = one.profile_text.replace("memory = \"auto\"", "memory = \"4G\"");
    let resources = run_protocol::ResourceLimits { memory_bytes: 4 << 30, ..one.resources };
    let old = RunSpec { profile_text: text.replace("registries = true", ""), resources, ..one };
    let again = stage.spec_after(Some(&old), "", &[]).unwrap();
    assert_eq!(again.resources.memory_bytes, 4 << 30);
}
