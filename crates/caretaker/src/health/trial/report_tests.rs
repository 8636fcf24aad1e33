use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn programs() -> Programs {
    Programs {
        caretaker: "0.1.0".to_owned(),
        is_simulated: false,
        agent: "2026.10.01-e373342".to_owned(),
        bubblewrap: "0.8.0".to_owned(),
        kernel: "6.1.0-18-amd64\n".to_owned(),
        system: "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\nVERSION_ID=\"12\"\n".to_owned(),
    }
}

fn json_of(programs: &Programs, findings: &[Finding]) -> Value {
    serde_json::to_value(Report::new(programs, findings)).unwrap()
}

#[test]
fn a_report_holds_marks_and_versions_and_no_word_of_a_finding() {
    let findings = [
        Finding::ok("first_line", "of ada@example.org"),
        Finding::failure("mcp", "in /home/ada/secret", "see /home/ada"),
        Finding::ok("ada", "is not a check"),
    ];
    assert_eq!(
        json_of(&programs(), &findings),
        json!({
            "v": 1,
            "kind": "trial",
            "versions": {
                "caretaker": "0.1.0",
                "agent": "2026.10.01-e373342",
                "bubblewrap": "0.8.0",
                "kernel": "6.1.0",
                "system": "debian 12",
            },
            "checks": {
                "first_line": "✓",
                "session": "–",
                "mcp": "✗",
                "network": "–",
                "exit": "–",
                "bucket": "–",
                "store": "–",
                "memory": "–",
                "clean": "–",
            },
        })
    );
    let simulated = Programs { is_simulated: true, agent: "any".to_owned(), ..programs() };
    assert_eq!(json_of(&simulated, &[])["versions"]["agent"], "simulated");
}

#[test]
fn only_known_forms_of_a_version_are_kept() {
    for (text, kept) in [
        ("2026.10.01-e373342", "2026.10.01-e373342"),
        (" 2026.10.01-e373342\n", "2026.10.01-e373342"),
        ("2026.06.15-18-00-12-6f5a2cf", "2026.06.15-18-00-12-6f5a2cf"),
        ("2026.10.01", "unknown"),
        ("2026.10.01-ada", "unknown"),
        ("2026.10.01-example.org", "unknown"),
        ("2026.10.01-e373342e373342e373342", "unknown"),
        ("2026.10.01-18-00-6f5a2cf", "unknown"),
        ("2026.10.01-0123-6f5a2cf", "unknown"),
        ("/home/ada/bin/agent", "unknown"),
        ("", "unknown"),
    ] {
        assert_eq!(agent_version(text), kept, "{text}");
    }
    for (text, kept) in [
        ("6.8.0-1018-aws", "6.8.0"),
        ("6.8.0-ada-lovelace", "6.8.0"),
        ("5.15.167.4-microsoft-standard", "5.15.167.4"),
        ("6.8.", "6.8"),
        ("6.8.0.1.2", "unknown"),
        ("123456.1", "unknown"),
        ("ada", "unknown"),
    ] {
        assert_eq!(numbers(leading_numbers(text)), kept, "{text}");
    }
    for (text, kept) in [
        ("ID=ubuntu\nVERSION_ID=\"24.04\"\n", "ubuntu 24.04"),
        ("ID='arch'\nBUILD_ID=rolling\n", "arch"),
        ("ID=fedora\nVERSION_ID=41\nHOSTNAME=ada\n", "fedora 41"),
        ("ID=debian\nVERSION_ID=ada\n", "debian"),
        ("ID=ada-linux\nVERSION_ID=1\n", "unknown"),
        ("ADA_ID=debian\n", "unknown"),
        ("", "unknown"),
    ] {
        assert_eq!(system(text), kept, "{text}");
    }
}

/// Every value that a version may have.
fn is_harmless(text: &str) -> bool {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_version = |text: &str| text.len() <= 32 && is_digits(text);
    let is_agent = |text: &str| {
        let is_hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'.' | b'-');
        text.len() <= 32
            && text.starts_with(|first: char| first.is_ascii_digit())
            && text.bytes().all(is_hex)
    };
    let (name, version) = text.split_once(' ').unwrap_or((text, ""));
    text == UNKNOWN
        || is_version(text)
        || is_agent(text)
        || (SYSTEMS.contains(&name) && is_version(version))
}

/// Texts that are nearly a version.
fn nearly() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9a-f.\\-]{0,40}",
        "202[0-9]\\.1[0-2]\\.[0-2][0-9]-[0-9a-z.\\-]{0,40}",
        "(ID|VERSION_ID|NAME)=[\"']?(debian|ubuntu|arch|ada)[ 0-9.a-z]{0,9}[\"']?",
        "ID=debian\nVERSION_ID=[\"']?[ 0-9.a-z/@]{0,12}[\"']?\n.*",
    ]
}

proptest! {
    #[test]
    fn nothing_else_gets_into_a_report(
        texts in prop::collection::vec(nearly(), 5),
        summary in any::<String>(),
        failed in 0..CHECKS.len(),
    ) {
        let programs = Programs {
            caretaker: texts[0].clone(),
            is_simulated: false,
            agent: texts[1].clone(),
            bubblewrap: texts[2].clone(),
            kernel: texts[3].clone(),
            system: texts[4].clone(),
        };
        let findings = [Finding::failure(CHECKS[failed], summary.clone(), summary)];
        let report = json_of(&programs, &findings);
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        prop_assert_eq!(keys(&report), ["v", "kind", "versions", "checks"]);
        prop_assert_eq!(
            keys(&report["versions"]),
            ["caretaker", "agent", "bubblewrap", "kernel", "system"]
        );
        prop_assert_eq!(keys(&report["checks"]), CHECKS);
        for version in report["versions"].as_object().unwrap().values() {
            prop_assert!(is_harmless(version.as_str().unwrap()), "{}", version);
        }
        for (id, mark) in report["checks"].as_object().unwrap() {
            prop_assert_eq!(mark, if id == CHECKS[failed] { "✗" } else { "–" });
        }
    }
}
