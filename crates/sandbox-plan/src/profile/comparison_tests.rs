use pretty_assertions::assert_eq;

use super::*;

fn profile(text: &str) -> Profile {
    Profile::parse("mine", text).unwrap()
}

#[test]
fn every_key_that_allows_more_is_named_and_its_opposite_is_not() {
    let default = profile("extends = \"default\"\n");
    for (text, key) in [
        ("[system]\nread_only = [\"/opt\"]\n", "system.read_only"),
        ("[system]\nlinks = [\"/opt\"]\n", "system.links"),
        ("[system]\netc = [\"/etc/shadow\"]\n", "system.etc"),
        ("[namespaces]\nown = [\"!ipc\"]\n", "namespaces.own"),
        ("[kernel]\nshm = \"1G\"\n", "kernel.shm"),
        ("[temporary]\ntmp = \"2G\"\n", "temporary.tmp"),
        ("[temporary]\nrun = \"2G\"\n", "temporary.run"),
        ("[temporary]\nparents = \"2G\"\n", "temporary.parents"),
        ("[home]\nsize = \"2G\"\n", "home.size"),
        ("[tools]\nexpose = [\"~/.ssh\"]\n", "tools.expose"),
        ("[workspace]\nshow = [\"more\"]\n", "workspace.show"),
        ("[workspace]\nprotect = [\"!.vscode\"]\n", "workspace.protect"),
        ("[workspace]\ngit_protect = [\"!hooks\"]\n", "workspace.git_protect"),
        ("[environment]\npass = [\"AWS_*\"]\n", "environment.pass"),
        ("[environment.set]\nTMPDIR = \"/elsewhere\"\n", "environment.set"),
        ("[seccomp]\nfilters = [\"!nosuid\"]\n", "seccomp.filters"),
        ("[network]\nmode = \"host\"\n", "network.mode"),
        ("[network]\nallow = [\"a.example.org\"]\n", "network.allow"),
        ("[network]\nfiles = [\"/etc/host.conf\"]\n", "network.files"),
        ("[network]\nconnections = 257\n", "network.connections"),
        ("[network]\ntransfer = \"65G\"\n", "network.transfer"),
        ("[network]\ntun = true\n", "network.tun"),
        ("[network]\nhandshake = \"11s\"\n", "network.handshake"),
        ("[network]\nidle = \"2h\"\n", "network.idle"),
    ] {
        let wider = profile(&format!("extends = \"default\"\n{text}"));
        assert_eq!(wider.wider_than(&default), [key], "{text}");
        // In the other direction, only a changed variable is wider.
        let back = default.wider_than(&wider);
        assert!(back.is_empty() || back == ["environment.set"], "{text}: {back:?}");
        assert_eq!(wider.wider_than(&wider), [""; 0]);
    }
    for (text, key) in [
        ("[caller]\nroot = \"refuse\"\n", "caller.root"),
        ("[run]\nchats = \"read-only\"\n", "run.chats"),
        ("[run]\ndata = \"read-only\"\n", "run.data"),
        ("[workspace]\naccess = \"read-only\"\n", "workspace.access"),
        ("[workspace]\nmissing = \"blocked\"\n", "workspace.missing"),
        ("[workspace]\nunprotected = \"refuse\"\n", "workspace.unprotected"),
        ("[workspace]\ngit = \"read-only\"\n", "workspace.git"),
        ("[network]\ntun = false\n", "network.tun"),
        ("[environment]\nrun = [\"!SHELL\"]\n", "environment.run"),
    ] {
        let narrower = profile(&format!("extends = \"default\"\n{text}"));
        assert_eq!(narrower.wider_than(&default), [""; 0], "{text}");
        assert_eq!(default.wider_than(&narrower), [key], "{text}");
    }
}

#[test]
fn strict_is_within_default_and_nothing_is_wider_than_no_sandbox() {
    let builtin = |name: &str| profile(&format!("extends = \"{name}\"\n"));
    let (default, strict, off) = (builtin("default"), builtin("strict"), builtin("off"));
    assert_eq!(strict.wider_than(&default), [""; 0]);
    assert!(!default.wider_than(&strict).is_empty());
    assert_eq!(off.wider_than(&default), ["confinement"]);
    assert_eq!(default.wider_than(&off), [""; 0]);
    assert_eq!(off.wider_than(&off), [""; 0]);
}
