use std::fs;

use pretty_assertions::assert_eq;
use run_protocol::{Bound, RunSpec};

use crate::admit::tests::Stage;

const OWN: &str = "npm.example.org";

/// A stage whose user has one registry.
fn stage() -> Stage {
    // Without PATH, no tool's own default counts.
    let stage = Stage::new(&[("PATH", "/nowhere")]);
    let npmrc = stage.host.environment.home.join(".npmrc");
    fs::write(npmrc, "registry=https://ada:s3cret@npm.example.org/\n_auth=s3cret\n").unwrap();
    stage
}

#[test]
fn without_the_flag_a_run_knows_the_addresses_and_reaches_none() {
    let spec = stage().spec_after(None, "", &[]).unwrap();
    assert_eq!(spec.registries, [] as [String; 0]);
    assert_eq!(spec.known_registries, [OWN]);
    assert_eq!(spec.home_files[".npmrc"], "registry=https://npm.example.org/\n");
    assert!(!serde_json::to_string(&spec).unwrap().contains("s3cret"));
}

#[test]
fn the_flag_allows_the_user_s_own_registries_and_those_that_it_names() {
    let stage = stage();
    let spec = stage.spec_after(None, "", &["--registries"]).unwrap();
    assert_eq!((spec.registries, spec.known_registries), (vec![OWN.to_owned()], vec![]));
    let spec =
        stage.spec_after(None, "", &["--registries=a.example.org,b.example.org:8443"]).unwrap();
    assert_eq!(spec.registries, [OWN, "a.example.org", "b.example.org:8443"]);
}

#[test]
fn strict_knows_no_registries_and_refuses_the_flag() {
    let stage = stage();
    let has_none = |spec: &RunSpec| {
        let is_of_git = |path: &String| path == ".gitconfig" || path.starts_with(".config/git/");
        spec.home_files.keys().all(is_of_git) && spec.known_registries.is_empty()
    };
    assert!(!has_none(&stage.spec_after(None, "", &[]).unwrap()));
    assert!(has_none(&stage.spec_after(None, "", &["--profile", "strict"]).unwrap()));
    for args in [
        ["--profile", "strict", "--registries"],
        ["--profile", "strict", "--registries=a.example.org"],
    ] {
        let error = stage.spec_after(None, "", &args).unwrap_err();
        assert_eq!(error.message_with_causes(), "the profile `strict` refuses --registries");
    }
    assert!(has_none(&stage.spec_after(None, "", &["--profile", "off"]).unwrap()));
    let error = stage.spec_after(None, "", &["--network", "none", "--registries"]).unwrap_err();
    assert!(error.message_with_causes().contains("needs a network"), "{error:?}");
}

#[test]
fn a_continued_run_keeps_its_registries_and_needs_widen_for_more() {
    let stage = stage();
    let without = stage.spec_after(None, "", &[]).unwrap();
    let error = stage.spec_after(Some(&without), "", &["--registries"]).unwrap_err();
    assert!(
        error.message_with_causes().contains("registries without → `npm.example.org`"),
        "{error:?}"
    );
    let wider =
        stage.spec_after(Some(&without), "", &["--registries", "--widen", "registries"]).unwrap();
    assert_eq!(wider.widened[0].bound, Bound::Registries);
    // The user's settings may have changed since. Only the flag asks for the current ones.
    let npmrc = stage.host.environment.home.join(".npmrc");
    fs::write(npmrc, "registry=https://new.example.org/\n").unwrap();
    let again = stage.spec_after(Some(&wider), "", &[]).unwrap();
    assert_eq!(
        (again.registries.as_slice(), again.known_registries.as_slice()),
        (&[OWN.to_owned()][..], &["new.example.org".to_owned()][..])
    );
    let narrower = stage.spec_after(Some(&wider), "", &["--network", "none"]).unwrap();
    assert_eq!(narrower.registries, [] as [String; 0]);
    let strict = stage.spec_after(Some(&wider), "", &["--profile", "strict"]).unwrap();
    assert_eq!(strict.registries, [] as [String; 0]);
}

#[test]
fn a_user_without_registries_must_name_some() {
    let stage = Stage::new(&[("PATH", "/nowhere")]);
    let error = stage.spec_after(None, "", &["--registries"]).unwrap_err();
    assert_eq!(error.hint_text(), Some("name the hosts: --registries=HOST,…"));
    assert!(stage.spec_after(None, "", &["--registries=a.example.org"]).is_ok());
}

#[test]
fn hosts_that_only_lock_files_name_are_shown_and_not_allowed() {
    let stage = stage();
    let lock = r#"{"resolved":"https://evil.example.org/a.tgz"},{"resolved":"https://npm.example.org/b.tgz"}"#;
    fs::write(stage.workspace().join("package-lock.json"), lock).unwrap();
    let remarks = |args: &[&str]| {
        let args = [args, &["--agent", "simulated"]].concat();
        stage.with("", &args, |admission| {
            let spec = admission.hypothetical().unwrap();
            assert!(
                !spec.hosts().any(|host| host == "evil.example.org") || args[0].contains("evil")
            );
            admission.registry_remarks(&spec).into_iter().map(String::from).collect::<Vec<_>>()
        })
    };
    assert_eq!(remarks(&["--stream"]), [] as [String; 0]);
    let shown = remarks(&["--registries"]);
    assert_eq!(
        shown[0],
        "the run can reach the registries npm.example.org; they can carry data out"
    );
    assert!(shown[1].ends_with("to allow them: --registries=evil.example.org"), "{}", shown[1]);
    assert_eq!(remarks(&["--registries=evil.example.org"]).len(), 1);
}
