use std::collections::BTreeSet;
use std::fs;

use egress::{AllowList, Listed};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use run_protocol::{AgentMode, RepositoryServer, RunLimits, ToolApproval, UserMcpFiles, Widening};
use run_shim::plan_run;
use sandbox_plan::{Confinement, SandboxPlan};

use super::*;
use crate::admit::tests::Stage;

const USER_SERVERS: &str = r#"{"mcpServers": {
    "notes": {"command": "/bin/true"},
    "linear": {"url": "https://z.example.org/mcp"}
}}"#;

const REPOSITORY_SERVERS: &str = r#"{"mcpServers": {"tools": {"command": "/bin/true"}}}"#;

/// A host with a repository, MCP servers and a directory of keys.
fn stage() -> Stage {
    let stage = Stage::new(&[("TOKEN", "token-0123456789"), ("TZ", "Europe/London")]);
    let home = stage.workspace().parent().unwrap().to_owned();
    for directory in [".cursor", "work/.cursor", "keys", "work/.git/objects", "work/.git/refs"] {
        fs::create_dir_all(home.join(directory)).unwrap();
    }
    fs::write(home.join(".cursor/mcp.json"), USER_SERVERS).unwrap();
    fs::write(home.join("work/.cursor/mcp.json"), REPOSITORY_SERVERS).unwrap();
    fs::write(home.join("work/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    stage
}

fn write_profile(stage: &Stage, text: &str) {
    let profiles = stage.host.places.config.join("profiles");
    fs::create_dir_all(&profiles).unwrap();
    fs::write(profiles.join("mine.toml"), text).unwrap();
}

const PROFILES: [&str; 7] = [
    "extends = \"default\"\n",
    "extends = \"strict\"\n[caller]\nroot = \"warn\"\n",
    "extends = \"default\"\n[network]\nmode = \"none\"\n[limits]\nmemory = \"256M\"\n",
    "extends = \"default\"\n[network]\nmode = \"host\"\n",
    "extends = \"default\"\n[tools]\nexpose = [\"~/keys\"]\n",
    "extends = \"default\"\n[workspace]\ngit = \"read-only\"\n[network]\nallow = [\"*.example.org\"]\n",
    "extends = \"default\"\n[limits]\nmemory = \"none\"\nprocesses = 0\n",
];

const CONFIGS: [&str; 4] = [
    "",
    "allow_hosts = [\"a.example.org\"]\nexpose = [\"/usr/share\"]\nuser_mcp = true\n",
    "profile = \"mine\"\nmodel = \"auto\"\n[limits]\nwall = \"9h\"\nmemory = \"none\"\n",
    "profile = \"strict\"\n[limits]\nwall = \"1m\"\ntool_calls = \"7\"\nmemory = \"100MiB\"\n",
];

/// One value of each flag, or several if the flag may be repeated.
const FLAGS: &[&[&str]] = &[
    &["--network=none", "--network=allowlist", "--network=host"],
    &["--allow-host=a.example.org"],
    &["--allow-host=*.example.org", "--allow-host=b.example.org:8443"],
    &["--expose=/usr/lib"],
    &["--expose=/usr/share"],
    &["--memory=128MiB", "--memory=1GiB", "--memory=8GiB", "--memory=none"],
    &["--processes=50", "--processes=5000", "--processes=none"],
    &["--cpus=0.5", "--cpus=2", "--cpus=none"],
    &["--max-file-size=1MiB", "--max-file-size=64GiB", "--max-file-size=none"],
    &["--disk=1MiB", "--disk=64GiB", "--disk=none"],
    &["--timeout=1m", "--timeout=2h", "--timeout=none"],
    &["--idle-timeout=1m", "--idle-timeout=2h", "--idle-timeout=none"],
    &["--max-tool-calls=5", "--max-tool-calls=500", "--max-tool-calls=none"],
    &["--max-tokens=5", "--max-tokens=500", "--max-tokens=none"],
    &["--loop=warn", "--loop=end"],
    &["--mode=plan", "--mode=ask", "--mode=agent"],
    &["--profile=default", "--profile=strict", "--profile=mine", "--profile=off"],
    &["--no-force", "--force"],
    // At most one of these: `--mcp` and `--user-mcp` exclude each other.
    &["--user-mcp", "--no-user-mcp", "--mcp=notes", "--mcp=linear"],
    &["--mcp-from-repo=tools"],
    &["--journal=1MiB", "--journal=64GiB", "--journal=none"],
    &["--secret=A=env:TOKEN"],
    &["--secret=B=env:TOKEN"],
    &["--group=x", "--group=y"],
    &["--label=a=b"],
    &["--env=A_WORD=b"],
    &["--model=gpt-5"],
    &["--no-checkpoint"],
    &["--restart"],
];

/// A random set of flags. Admission refuses some sets, such as `--force` in a sandbox; that is not a widening.
fn flags() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(FLAGS.to_vec(), 0..9).prop_flat_map(|flags| {
        flags.into_iter().map(|values| select(values.to_vec())).collect::<Vec<_>>()
    })
}

fn bounds() -> impl Strategy<Value = Vec<Bound>> {
    prop_oneof![
        2 => Just(Vec::new()),
        1 => subsequence(Bound::ALL.to_vec(), 0..Bound::ALL.len()),
        1 => Just(Bound::ALL.to_vec()),
    ]
}

/// The rights of a run, computed from its sandbox plan and its limits, without [`wider_than`].
#[derive(Debug)]
struct Power {
    is_confined: bool,
    writable: BTreeSet<std::path::PathBuf>,
    reads_keys: bool,
    shown: BTreeSet<std::path::PathBuf>,
    reached: BTreeSet<(&'static str, u16)>,
    filters: usize,
    /// Limits: a higher one allows more, and no limit allows the most.
    amounts: Vec<u64>,
    /// Further rights, by name.
    rights: BTreeSet<String>,
}

/// `None` if the sandbox is refused: `strict` does not work for root.
fn power(stage: &Stage, spec: &RunSpec) -> Option<Power> {
    let profile = Profile::parse(&spec.profile, &spec.profile_text).unwrap();
    let is_confined = profile.confinement() == Confinement::Bubblewrap;
    let plan = match is_confined {
        true => Some(plan_run(&stage.host.state, spec).ok()?),
        false => None,
    };
    let own = stage.host.state.path().to_owned();
    let writable = plan.iter().flat_map(SandboxPlan::writable_on_host);
    let writable = writable.filter(|path| !path.starts_with(&own)).map(Into::into).collect();
    let parts = plan.iter().flat_map(SandboxPlan::explain);
    let reads_keys = parts.into_iter().any(|part| part.detail.contains("/home/keys"));
    let probes = [
        ("a.example.org", 443),
        ("z.example.org", 443),
        ("b.example.org", 8443),
        ("api2.cursor.sh", 443),
        ("evil.example", 80),
    ];
    let reached =
        probes.into_iter().filter(|(host, port)| match plan.as_ref().map(SandboxPlan::network) {
            None => true,
            Some(network) => match network.mode {
                NetworkMode::Host => true,
                NetworkMode::None => false,
                NetworkMode::Allowlist => {
                    let list: AllowList =
                        network.allow.iter().map(|(host, _)| host.clone()).collect();
                    list.decide(&host.parse().unwrap(), *port) == Listed::Yes
                }
            },
        });
    let RunLimits {
        startup_ms,
        idle_ms,
        tool_ms,
        settle_ms,
        wall_ms,
        tool_calls,
        tokens,
        journal_bytes,
        ..
    } = spec.limits;
    let resources = spec.resources;
    let amounts = [
        startup_ms,
        idle_ms,
        tool_ms,
        settle_ms,
        wall_ms,
        tool_calls,
        tokens,
        journal_bytes,
        resources.memory_bytes,
        resources.processes,
        resources.cpu_milli,
        resources.file_bytes,
        resources.open_files,
        resources.disk_bytes,
    ];
    let mut rights: BTreeSet<String> =
        spec.secrets.iter().map(|name| format!("secret {name}")).collect();
    let granted = [
        ("unasked", spec.tool_approval == ToolApproval::Force),
        ("writing", spec.mode.is_none()),
        ("limits that nothing enforces", !resources.required),
        ("no budget", spec.group.is_none()),
    ];
    let users = spec.user_mcp.iter().flat_map(|files| match &files.only {
        Some(names) => names.clone(),
        None => vec!["notes".to_owned(), "linear".to_owned()],
    });
    rights.extend(users.map(|name| format!("the user's server {name}")));
    let of_repository = spec.repository_mcp.iter();
    rights.extend(of_repository.map(|server| format!("the repository's server {}", server.name)));
    rights.extend(granted.into_iter().filter(|(_, is)| *is).map(|(right, _)| right.to_owned()));
    Some(Power {
        is_confined,
        writable,
        reads_keys,
        shown: spec.expose.iter().map(|path| path.0.clone()).collect(),
        reached: reached.collect(),
        filters: plan.as_ref().map_or(0, |plan| plan.seccomp_programs().len()),
        amounts: amounts.map(|amount| if amount == 0 { u64::MAX } else { amount }).to_vec(),
        rights,
    })
}

impl Power {
    fn exceeds(&self, other: &Self) -> bool {
        let more_amounts =
            self.amounts.iter().zip(&other.amounts).any(|(now, before)| now > before);
        let more_rights = !self.rights.is_subset(&other.rights);
        if !other.is_confined {
            return more_amounts || more_rights;
        }
        !self.is_confined
            || !self.writable.is_subset(&other.writable)
            || self.reads_keys && !other.reads_keys
            || !self.shown.is_subset(&other.shown)
            || !self.reached.is_subset(&other.reached)
            || self.filters < other.filters
            || more_amounts
            || more_rights
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Holds for every first request, and for all flags, configurations and profiles of the next one.
    #[test]
    fn a_continued_run_is_never_wider_except_in_named_bounds(
        first in flags(),
        then in flags(),
        configs in (select(CONFIGS.to_vec()), select(CONFIGS.to_vec())),
        profiles in (select(PROFILES.to_vec()), select(PROFILES.to_vec())),
        named in bounds(),
    ) {
        let stage = stage();
        write_profile(&stage, profiles.0);
        let first = stage.spec_after(None, configs.0, &first);
        prop_assume!(first.is_ok());
        let first = first.unwrap();
        write_profile(&stage, profiles.1);
        let words: Vec<&str> = named.iter().map(|bound| bound.word()).collect();
        let widen = format!("--widen={}", words.join(","));
        let mut flags = then;
        if !named.is_empty() {
            flags.push(&widen);
        }
        let Ok(second) = stage.spec_after(Some(&first), configs.1, &flags) else { return Ok(()) };
        let wider = wider_than(&second, &first);
        for Widening { bound, .. } in &wider {
            prop_assert!(named.contains(bound), "{wider:?}");
        }
        prop_assert_eq!(&second.widened, &wider);
        if named.is_empty() {
            // Each session has its own writable directory, so compare within one session.
            let second = RunSpec { session: first.session, ..second.clone() };
            if let (Some(now), Some(before)) = (power(&stage, &second), power(&stage, &first)) {
                prop_assert!(!now.exceeds(&before), "{:#?}\n{:#?}", now, before);
            }
        }
        // A third run without flags keeps the rights of the second.
        let third = stage.spec_after(Some(&second), configs.0, &[]);
        if let Ok(third) = third {
            prop_assert_eq!(wider_than(&third, &second), []);
            prop_assert_eq!(third.widened, []);
        }
    }
}

fn servers(only: Option<&str>) -> UserMcpFiles {
    let only = only.map(|name| vec![name.to_owned()]);
    UserMcpFiles { servers: "/x".into(), disabled: Vec::new(), only }
}

#[test]
fn naming_more_servers_is_wider_and_naming_fewer_is_not() {
    let spec = |only| RunSpec { user_mcp: Some(servers(only)), ..narrow() };
    let (one, other, all) = (spec(Some("notes")), spec(Some("slack")), spec(None));
    for (now, before, is_wider) in
        [(&one, &one, false), (&one, &other, true), (&all, &one, true), (&one, &all, false)]
    {
        let found: Vec<Bound> = wider_than(now, before).iter().map(|it| it.bound).collect();
        assert_eq!(found == [Bound::UserMcp], is_wider, "{now:?} after {before:?}");
    }
}

/// A server adds its host to the allow-list only if the user names the server.
#[test]
fn a_named_server_after_all_servers_is_wider_if_its_host_may_be_new() {
    use NetworkMode::{Allowlist, Host, None as NoNetwork};
    let spec = |only, network| RunSpec {
        user_mcp: Some(servers(only)),
        network: Some(network),
        ..narrow()
    };
    for (network, is_wider) in [(Allowlist, true), (NoNetwork, false), (Host, false)] {
        let found = wider_than(&spec(Some("linear"), network), &spec(None, network));
        let found: Vec<Bound> = found.iter().map(|it| it.bound).collect();
        assert_eq!(found == [Bound::UserMcp], is_wider, "{network:?}: {found:?}");
    }
}

/// A spec in which every bound can be wider.
fn narrow() -> RunSpec {
    let stage = stage();
    let flags = [
        "--network=none",
        "--memory=1GiB",
        "--processes=50",
        "--cpus=1",
        "--max-file-size=1MiB",
        "--disk=1MiB",
        "--timeout=1m",
        "--idle-timeout=1m",
        "--max-tool-calls=5",
        "--max-tokens=5",
        "--loop=end",
        "--mode=plan",
        "--no-force",
        "--group=x",
    ];
    let mut spec = stage.spec_after(None, "", &flags).unwrap();
    spec.resources.required = true;
    spec.policy.as_mut().unwrap().deny.push("Shell(rm)".to_owned());
    spec
}

#[test]
fn each_bound_can_be_widened_alone_and_narrowing_it_again_is_not_a_widening() {
    let narrow = narrow();
    assert_eq!(wider_than(&narrow, &narrow), []);
    let strict = include_str!("../../../../sandbox/profiles/strict.toml");
    let narrow =
        RunSpec { profile: "strict".to_owned(), profile_text: strict.to_owned(), ..narrow };
    type Change = fn(&mut RunSpec);
    let changes: &[(Bound, Change)] = &[
        (Bound::Profile, |spec| spec.profile_text = "extends = \"default\"\n".to_owned()),
        (Bound::Profile, |spec| spec.profile_text = "extends = \"off\"\n".to_owned()),
        (Bound::Profile, |spec| spec.profile_text = "not a profile".to_owned()),
        (Bound::Network, |spec| spec.network = Some(NetworkMode::Allowlist)),
        (Bound::Network, |spec| spec.network = None),
        (Bound::AllowHost, |spec| spec.allow_hosts.push("a.example.org".to_owned())),
        (Bound::Registries, |spec| spec.registries.push("b.example.org".to_owned())),
        (Bound::Expose, |spec| spec.expose.push("/usr".into())),
        (Bound::Agent, |spec| spec.agent.kind = run_protocol::AgentKind::Cursor),
        (Bound::Mode, |spec| spec.mode = None),
        (Bound::Force, |spec| spec.tool_approval = ToolApproval::Force),
        (Bound::Permissions, |spec| spec.policy.as_mut().unwrap().deny.clear()),
        (Bound::Permissions, |spec| {
            spec.policy.as_mut().unwrap().allow.push("Shell(rm)".to_owned());
        }),
        (Bound::UserMcp, |spec| {
            spec.user_mcp = Some(servers(None));
        }),
        (Bound::UserMcp, |spec| spec.user_mcp = Some(servers(Some("notes")))),
        (Bound::McpFromRepo, |spec| {
            let (name, sha256) = ("tools".to_owned(), "00".to_owned());
            spec.repository_mcp.push(RepositoryServer { name, sha256 });
        }),
        (Bound::Journal, |spec| spec.limits.journal_bytes += 1),
        (Bound::Secret, |spec| spec.secrets.push("X".to_owned())),
        (Bound::Group, |spec| spec.group = None),
        (Bound::Group, |spec| spec.group = Some("y".to_owned())),
        (Bound::Timeout, |spec| spec.limits.wall_ms = 0),
        (Bound::Timeout, |spec| spec.limits.wall_ms += 1),
        (Bound::IdleTimeout, |spec| spec.limits.idle_ms = 0),
        (Bound::MaxToolCalls, |spec| spec.limits.tool_calls += 1),
        (Bound::MaxTokens, |spec| spec.limits.tokens = 0),
        (Bound::Loop, |spec| spec.limits.r#loop = run_protocol::OnLoop::Warn),
        (Bound::Memory, |spec| spec.resources.memory_bytes = 0),
        (Bound::Memory, |spec| spec.resources.memory_bytes += 1),
        (Bound::Processes, |spec| spec.resources.processes += 1),
        (Bound::Cpus, |spec| spec.resources.cpu_milli = 0),
        (Bound::MaxFileSize, |spec| spec.resources.file_bytes += 1),
        (Bound::Disk, |spec| spec.resources.disk_bytes += 1),
        (Bound::Limits, |spec| spec.limits.tool_ms = 0),
        (Bound::Limits, |spec| spec.limits.ladder.kill_after_ms += 1),
        (Bound::Limits, |spec| spec.resources.open_files = 0),
        (Bound::Limits, |spec| spec.resources.cpu_weight += 1),
        (Bound::Limits, |spec| spec.resources.required = false),
    ];
    for (row, (bound, change)) in changes.iter().enumerate() {
        let mut wide = narrow.clone();
        change(&mut wide);
        let found: Vec<Bound> = wider_than(&wide, &narrow).iter().map(|it| it.bound).collect();
        assert_eq!(found, [*bound], "row {row}");
        // A change back to the first agent or group is also a widening.
        let back: Vec<Bound> = wider_than(&narrow, &wide).iter().map(|it| it.bound).collect();
        let is_identity = matches!(bound, Bound::Agent | Bound::Group) && wide.group.is_some();
        let is_unknown = wide.profile_text == "not a profile";
        assert!(back.is_empty() || is_identity || is_unknown, "row {row}: {back:?}");
    }
    let changed: BTreeSet<Bound> = changes.iter().map(|(bound, _)| *bound).collect();
    assert_eq!(changed, Bound::ALL.iter().copied().collect());
}

#[test]
fn the_page_on_resume_lists_what_can_be_widened() {
    let page = include_str!("../../../../crates/caretaker/README.md");
    let (_, list) = page.split_once("`--widen` takes the names of flags:").unwrap();
    let (list, _) = list.split_once('.').unwrap();
    let listed: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    let words: Vec<&str> = Bound::ALL.iter().map(|bound| bound.word()).collect();
    assert_eq!(listed, words);
}

#[test]
fn a_setting_that_is_not_a_bound_comes_from_the_flags_or_the_earlier_run() {
    let stage = stage();
    let first = stage
        .spec_after(
            None,
            "",
            &["--label=a=1", "--label=b=1", "--model=gpt-5", "--env=A_WORD=1", "--mode=ask"],
        )
        .unwrap();
    let flags = ["--label=b=2", "--env=OTHER=2", "--mode=plan", "--restart"];
    let config = "model = \"auto\"\nlabels = { c = \"3\" }\n";
    let second = stage.spec_after(Some(&first), config, &flags).unwrap();
    let labels: Vec<(&str, &str)> =
        second.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(labels, [("a", "1"), ("b", "2")]);
    assert_eq!((second.model.as_deref(), second.mode), (Some("gpt-5"), Some(AgentMode::Plan)));
    assert_eq!((second.env["A_WORD"].as_str(), second.env["OTHER"].as_str()), ("1", "2"));
    assert!(second.restart);
}

#[test]
fn a_lowered_profile_limit_applies_and_an_earlier_flag_wins_over_an_unchanged_profile() {
    let stage = stage();
    write_profile(&stage, "extends = \"default\"\n[limits]\nmemory = \"1G\"\n");
    let first = stage.spec_after(None, "", &["--profile=mine", "--memory=8GiB"]).unwrap();
    let memory = |first: &RunSpec, flags: &[&str]| {
        stage.spec_after(Some(first), "", flags).unwrap().resources.memory_bytes
    };
    assert_eq!(memory(&first, &[]), 8 << 30);
    write_profile(&stage, "extends = \"default\"\n[limits]\nmemory = \"512M\"\n");
    assert_eq!(memory(&first, &[]), 512 << 20);
    assert_eq!(memory(&first, &["--memory=2GiB"]), 2 << 30, "a flag decides");
    write_profile(&stage, "extends = \"default\"\n[limits]\nmemory = \"9G\"\n");
    assert_eq!(memory(&first, &[]), 8 << 30);
}
