use pretty_assertions::assert_eq;

use super::*;

fn default_text() -> &'static str {
    BUILTIN[0].1
}

fn error(text: &str) -> String {
    Profile::parse("mine", text).unwrap_err().to_string()
}

#[test]
fn the_built_in_profiles_are_read() {
    for (name, text) in builtin_profiles() {
        let profile = Profile::parse(name, text).unwrap();
        assert_eq!(profile.name(), *name);
        assert!(!profile.description().is_empty());
    }
    let confinement = |index: usize| {
        let (name, text) = BUILTIN[index];
        Profile::parse(name, text).unwrap().confinement()
    };
    assert_eq!(confinement(0), Confinement::Bubblewrap);
    assert_eq!(confinement(1), Confinement::None);
    assert_eq!(confinement(2), Confinement::Bubblewrap);
}

#[test]
fn every_value_knows_its_line() {
    let profile = Profile::parse("default", default_text()).unwrap();
    let rules = profile.rules().unwrap();
    let line_of = |origin: &Origin| match origin {
        Origin::Profile(line) => {
            let number: usize = line.strip_prefix("default.toml:").unwrap().parse().unwrap();
            default_text().lines().nth(number - 1).unwrap().trim()
        }
        other => panic!("{other}"),
    };
    assert!(line_of(&rules.home.size.origin).starts_with("size = \"1G\""));
    assert!(line_of(&rules.network.mode.origin).starts_with("mode = \"allowlist\""));
    assert!(line_of(&rules.seccomp.filters[3].origin).starts_with("\"nosuid\","));
    assert!(line_of(&rules.environment.set.values().next().unwrap().origin).starts_with("TMPDIR"));
    assert!(line_of(rules.passes(OsStr::new("LC_TIME")).unwrap()).starts_with("\"LC_*\","));
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let text = default_text().replace("[tools]\nexpose", "[tools]\nexposes");
    let line = text.lines().position(|line| line.starts_with("exposes")).unwrap() + 1;
    let err = error(&text);
    assert!(err.starts_with(&format!("mine.toml:{line}: unknown field `exposes`")), "{err}");
    let err = error("extends = \"default\"\n\n[netwrk]\n");
    assert!(err.starts_with("mine.toml:3: unknown field `netwrk`"), "{err}");
}

#[test]
fn wrong_values_are_named_with_their_line() {
    let cases = [
        ("[network]\nmode = \"wide-open\"", "mine.toml:3: unknown variant `wide-open`"),
        ("[home]\nsize = \"much\"", "mine.toml:3: `much` is not a size such as 64M or 1G"),
        ("[run]\ndot_cursor = \"read-write\"", "mine.toml:3: unknown variant `read-write`"),
        ("[tools]\nexpose = [\n  \"tools\",\n]", "mine.toml:4: `tools` begins with neither"),
        (
            "[tools]\nexpose = [\"!~/none\"]",
            "mine.toml:3: `!~/none` removes an entry that is not in",
        ),
        ("[seccomp]\nfilters = [\"best\"]", "mine.toml:3: unknown variant `best`"),
        ("[namespaces]\nown = [\"net\"]", "mine.toml:3: unknown variant `net`"),
        ("[namespaces]\nown = [\"!user\"]", "mine.toml: `namespaces.own` must have `user`"),
        ("[namespaces]\nhostname = \"a b\"", "mine.toml:3: `a b` is not a host name"),
        ("[environment]\npass = [\"LD_PRELOAD\"]", "mine.toml:3: `LD_PRELOAD` must not come"),
        ("[workspace]\nprotect = [\"../x\"]", "mine.toml:3: `../x` is not a plain path"),
        ("[workspace]\nshow = [\"mcp.json\"]", "mine.toml:3: `mcp.json` is always Caretaker's"),
        ("[system]\ngenerated = [\"/etc/shadow\"]", "mine.toml:3: unknown variant `/etc/shadow`"),
        ("[environment.set]\n\"A-B\" = \"x\"", "mine.toml:3: `A-B` is not the name of"),
        ("[network]\nallow = [\"https://x.example\"]", "mine.toml:3: `https://x.example` is a URL"),
        ("[network]\nallow = [\"10.0.0.1\"]", "mine.toml:3: `10.0.0.1` is not a host name"),
        ("[network]\nallow = [\"!x.example\"]", "mine.toml:3: `!x.example` removes an entry that"),
        ("[network]\nconnections = 0", "mine.toml:3: invalid value: integer `0`"),
        ("[network]\nidle = \"soon\"", "mine.toml:3: `soon` is not a time such as 10s, 15m or 1h"),
        ("oops", "mine.toml:2: "),
    ];
    for (text, expected) in cases {
        let err = error(&format!("extends = \"default\"\n{text}\n"));
        assert!(err.starts_with(expected), "{text}: {err}");
    }
}

#[test]
fn a_profile_extends_a_built_in_one_or_is_complete() {
    let err = error("extends = \"mine\"");
    assert_eq!(
        err,
        "mine.toml:1: `mine` is not a built-in profile, and only those can be extended"
    );
    let err = error("description = \"x\"\nconfinement = \"bubblewrap\"");
    assert_eq!(
        err,
        "mine.toml:1: missing field `caller`; give it, or begin with `extends = \"default\"`"
    );
    let text = default_text().replace("shm = \"64M\"", "");
    let line = text.lines().position(|line| line == "[kernel]").unwrap() + 1;
    assert_eq!(
        error(&text),
        format!(
            "mine.toml:{line}: missing field `shm`; give it, or begin with `extends = \"default\"`"
        )
    );
}

#[test]
fn an_extending_profile_adds_removes_and_replaces() {
    let base = Profile::parse("default", default_text()).unwrap();
    let text = "extends = \"default\"\n[home]\nsize = \"2G\"\n[tools]\nexpose = [\"~/tools\", \"!~/.nvm\"]\n\
                [environment.set]\nTMPDIR = \"/tmp/x\"\nEDITOR = \"ed\"\n";
    let mine = Profile::parse("mine", text).unwrap();
    let (base, mine) = (base.rules().unwrap(), mine.rules().unwrap());
    assert_eq!(mine.home.size.value, Size(2 << 30));
    assert_eq!(mine.home.size.origin, Origin::Profile("mine.toml:3".into()));
    assert_eq!(mine.temporary.tmp, base.temporary.tmp);
    assert_eq!(mine.tools.expose.len(), base.tools.expose.len());
    assert!(mine.tools.expose.iter().all(|tool| tool.value != "~/.nvm".parse().unwrap()));
    let last = mine.tools.expose.last().unwrap();
    assert_eq!(last.value, "~/tools".parse().unwrap());
    assert_eq!(last.origin, Origin::Profile("mine.toml:5".into()));
    let set = mine.environment.set.iter();
    let set: Vec<_> = set.map(|(name, value)| (name.0.as_str(), value.value.as_str())).collect();
    assert_eq!(set, [("EDITOR", "ed"), ("TMPDIR", "/tmp/x")]);
}

#[test]
fn a_profile_may_extend_one_that_extends_another() {
    let mine = Profile::parse("mine", "extends = \"strict\"\n[home]\nsize = \"2G\"\n").unwrap();
    let rules = mine.rules().unwrap();
    assert_eq!(rules.home.size.origin, Origin::Profile("mine.toml:3".into()));
    assert_eq!(rules.workspace.git.value, Access::ReadOnly);
    assert!(rules.workspace.git.origin.to_string().starts_with("strict.toml:"));
    assert!(rules.temporary.tmp.origin.to_string().starts_with("default.toml:"));
}

#[test]
fn strict_is_nowhere_more_open_than_default() {
    let [default, strict] = ["default", "strict"].map(|name| {
        let (_, text) = BUILTIN.iter().find(|(builtin, _)| *builtin == name).unwrap();
        Profile::parse(name, text).unwrap()
    });
    let (default, strict) = (default.rules().unwrap(), strict.rules().unwrap());
    assert_eq!(strict.caller.root.value, RootCaller::Refuse);
    assert_eq!(strict.workspace.missing.value, MissingNames::Blocked);
    assert_eq!(strict.workspace.git.value, Access::ReadOnly);
    assert!(strict.workspace.access.value <= default.workspace.access.value);
    assert_eq!(strict.seccomp.filters, default.seccomp.filters);
    assert_eq!(strict.namespaces.own, default.namespaces.own);
    let (mine, base) = (&strict.workspace, &default.workspace);
    for (mine, base) in [(&mine.protect, &base.protect), (&mine.git_protect, &base.git_protect)] {
        assert!(base.iter().all(|name| mine.iter().any(|other| other.value == name.value)));
    }
    let pass = &default.environment.pass;
    assert!(strict.environment.pass.iter().all(|name| pass.contains(name)));
    assert!(strict.tools.expose.iter().all(|tool| default.tools.expose.contains(tool)));
}

#[test]
fn a_protected_name_may_have_a_star_and_say_that_it_is_a_directory() {
    let name: ProtectedName = "*.code-workspace".parse().unwrap();
    let directory = tempfile::tempdir().unwrap();
    for file in ["b.code-workspace", "a.code-workspace", "other"] {
        std::fs::write(directory.path().join(file), "").unwrap();
    }
    let found = name.paths_in(directory.path());
    assert_eq!(found, ["a.code-workspace", "b.code-workspace"].map(std::path::PathBuf::from));
    let directory: ProtectedName = ".vscode/".parse().unwrap();
    assert_eq!(directory.kind, ProtectedKind::Directory);
    assert_eq!(directory, ".vscode".parse().unwrap());
    for text in ["a/*.json", "**", "", "/", "/etc", "a//", "../x"] {
        assert!(text.parse::<ProtectedName>().is_err(), "{text}");
    }
}

#[test]
fn only_listed_host_variables_enter() {
    let profile = Profile::parse("default", default_text()).unwrap();
    let passes = |name: &str| profile.passes_variable(OsStr::new(name));
    for name in ["LANG", "LC_ALL", "TZ", "https_proxy", "RUSTUP_HOME"] {
        assert!(passes(name), "{name}");
    }
    for name in
        ["HOME", "PATH", "LD_PRELOAD", "GIT_DIR", "AWS_SECRET_ACCESS_KEY", "CURSOR_CONFIG_DIR"]
    {
        assert!(!passes(name), "{name}");
    }
    let wide =
        Profile::parse("wide", "extends = \"default\"\n[environment]\npass = [\"L*\"]").unwrap();
    assert!(wide.passes_variable(OsStr::new("LESS")));
    assert!(!wide.passes_variable(OsStr::new("LD_PRELOAD")));
    let off = Profile::parse("off", BUILTIN[1].1).unwrap();
    assert!(!off.passes_variable(OsStr::new("LANG")));
}
