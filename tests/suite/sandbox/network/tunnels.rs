//! Names that lead to addresses of TUN proxies and VPNs.

use std::fs::{self, File};

use pretty_assertions::assert_eq;

use super::outside::Outside;
use crate::stage::assert_exit;

const SCRIPT: &str = "shell for name in tun vpn lan; do curl -sS -m 60 --cacert ca.pem https://$name.trap.test 2>&1; \
                      echo; done > got\nsay done";
const FORBIDDEN: &str = "curl: (56) CONNECT tunnel failed, response 403";

/// Runs the script with a profile that has this line, and returns the three answers.
fn answers(outside: &Outside, way: &str, line: &str) -> [String; 3] {
    let profiles = outside.stage.home().join(".config/caretaker/profiles");
    fs::create_dir_all(&profiles).unwrap();
    let profile = format!("extends = \"default\"\n[network]\nallow = [\"*.trap.test\"]\n{line}\n");
    fs::write(profiles.join("mine.toml"), profile).unwrap();
    let output = outside.play_over(way, SCRIPT, &["--profile", "mine"]);
    assert_exit(&output, 0);
    let got = fs::read_to_string(outside.stage.workspace().join("got")).unwrap();
    let lines: Vec<&str> = got.lines().filter(|line| !line.is_empty()).collect();
    let lines: [&str; 3] = lines.try_into().unwrap();
    lines.map(|line| line.split(" over ").next().unwrap().to_owned())
}

fn expected(tun: &str, vpn: &str) -> [String; 3] {
    [tun, vpn, FORBIDDEN].map(ToOwned::to_owned)
}

#[test]
fn addresses_of_tunnels_are_dialled_if_the_route_leads_through_a_tunnel_or_the_profile_says_so() {
    let Some(outside) = Outside::new() else { return };
    let reached = expected("reached tun.trap.test", "reached vpn.trap.test");
    let refused = expected(FORBIDDEN, FORBIDDEN);

    assert_eq!(answers(&outside, "cable", ""), refused);
    let log = outside.stage.output(&["sandbox", "net-log", "-"]).stdout;
    let log = String::from_utf8(log).unwrap();
    for why in [
        "198.18.0.10: it is reserved for network tests and not behind a tunnel",
        "100.64.0.10: it is in a provider's own network and not behind a tunnel",
        "10.1.2.3: it is in a private network",
    ] {
        assert!(log.contains(why), "{why}: {log}");
    }
    assert_eq!(answers(&outside, "cable", "tun = true"), reached);

    let device = File::options().read(true).write(true).open("/dev/net/tun");
    if let Err(error) = device {
        let is_required = std::env::var_os("REQUIRE_SANDBOX").is_some_and(|value| value == "1");
        assert!(!is_required, "/dev/net/tun: {error}");
        eprintln!("/dev/net/tun: {error}, so tunnels were not tested");
        return;
    }
    // TAP carries Ethernet, usually to virtual machines on this one.
    assert_eq!(answers(&outside, "tap", ""), refused);
    assert_eq!(answers(&outside, "tun", ""), reached);
    assert_eq!(answers(&outside, "tun", "tun = false"), refused);
}
