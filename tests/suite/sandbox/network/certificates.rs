//! A company's own certificate authority, which the host's variables name.

use std::fs;

use pretty_assertions::assert_eq;

use super::outside::Outside;
use crate::stage::{Stage, assert_exit};

#[test]
fn an_authority_that_a_variable_of_the_host_names_is_trusted_inside() {
    let Some(outside) = Outside::new() else { return };
    let (world, home) = (outside.world(), outside.stage.home());
    // Nothing else trusts the certificate of the host outside.
    let other = world.join("certs/ca-certificates.crt");
    fs::remove_file(&other).unwrap();
    fs::write(&other, "").unwrap();
    let authority = home.join("company.pem");
    fs::copy(world.join("ca.pem"), &authority).unwrap();
    let authority = authority.to_str().unwrap();

    let fetch = "fetch(\"https://allowed.test\").then((answer) => answer.text()).then(console.log, console.log)";
    let script = format!(
        "shell node -e '{fetch}' > by-node 2>&1; curl -sS https://allowed.test > by-curl 2>&1; \
         env | grep CERT | sort > seen; mv $SSL_CERT_FILE /tmp 2> complaint; ls {authority} >> complaint 2>&1\nsay done"
    );
    let got = |name: &str| {
        let got = fs::read_to_string(outside.stage.workspace().join(name)).unwrap();
        got.split(" over ").next().unwrap().trim_end().to_owned()
    };
    let variables = [("NODE_EXTRA_CA_CERTS", authority), ("SSL_CERT_FILE", authority)];
    assert_exit(&outside.play_plainly(&variables, &script), 0);
    assert_eq!(got("by-node"), "reached allowed.test");
    assert_eq!(got("by-curl"), "reached allowed.test");
    assert_eq!(
        got("seen"),
        "NODE_EXTRA_CA_CERTS=/etc/caretaker/NODE_EXTRA_CA_CERTS.pem\nSSL_CERT_FILE=/etc/caretaker/SSL_CERT_FILE.pem"
    );
    let complaint = got("complaint");
    assert!(complaint.contains("Read-only file system"), "{complaint}");
    assert!(complaint.contains("No such file or directory"), "{complaint}");

    assert_exit(&outside.play_plainly(&[], &script), 0);
    assert!(got("by-node").contains("TypeError: fetch failed"), "{}", got("by-node"));
    assert!(got("by-curl").starts_with("curl: ("), "{}", got("by-curl"));
}

#[test]
fn a_file_with_a_private_key_is_not_shown_and_the_run_says_so() {
    let stage = Stage::new();
    let file = stage.home().join("both.pem");
    let block = |label: &str, content: &str| {
        format!("-----BEGIN {label}-----\n{content}\n-----END {label}-----\n")
    };
    fs::write(&file, block("CERTIFICATE", "AAAA") + &block("PRIVATE KEY", "c2VjcmV0")).unwrap();
    let prompt = "```agent\nshell env | grep CERT > seen; cat /etc/caretaker/* >> seen 2>&1; true\nsay done\n```\n";
    let mut command = stage.caretaker(&["run", "--agent", "simulated", prompt]);
    let output = command.env("NODE_EXTRA_CA_CERTS", &file).output().unwrap();
    assert_exit(&output, 0);
    let said = String::from_utf8(output.stdout).unwrap();
    let expected = format!(
        "`{}`, which NODE_EXTRA_CA_CERTS names, is not shown inside: it also has a PRIVATE KEY; put only the \
         certificates into a file, and let the variable name that",
        file.display()
    );
    assert!(said.replace('\n', " ").contains(&expected), "{said}");
    let seen = fs::read_to_string(stage.workspace().join("seen")).unwrap();
    assert_eq!(seen, "cat: '/etc/caretaker/*': No such file or directory\n");
}
