//! The parts of the host that are visible inside.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use run_protocol::NetworkMode;
use sandbox_plan::{EnvVariable, Secrecy, VariableSource, builtin_profiles};

use crate::launch::sandboxes_work;
use crate::scene::{OURS, Scene, run_variable};

#[test]
fn the_home_is_private_and_has_only_what_the_run_put_there() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("src/project");
    scene.write(&scene.home().join(".bashrc"), "secret");
    scene.write(&scene.home().join("src/other/file"), "secret");
    scene.write(&scene.home().join(".cursor/mcp.json"), "secret");
    scene.write(&scene.home().join(".cargo/bin/tool"), "");
    scene.write(&scene.home().join(".cargo/credentials.toml"), "secret");
    scene.private_file(".cursor/cli-config.json", "{}", 0o600);
    let seen = scene.run(
        "cd; find . -mindepth 1 ! -path './.cursor/projects/*' | sort; stat -c %a .cursor/cli-config.json
         echo new > .cursor/cli-config.json.tmp && mv .cursor/cli-config.json.tmp .cursor/cli-config.json
         touch .cargo/bin/new 2>/dev/null || echo read-only; touch scratch && echo scratch",
    );
    let expected = "./.cargo\n./.cargo/bin\n./.cargo/bin/tool\n./.cursor\n./.cursor/chats\n\
        ./.cursor/chats/bucket\n./.cursor/chats/bucket/session\n./.cursor/cli-config.json\n./.cursor/projects\n./src\n./src/project\n\
        ./src/project/.cursor\n./src/project/.cursor/mcp.json\n600\nread-only\nscratch\n";
    assert_eq!(seen, expected);
    assert!(!scene.home().join("scratch").exists());
}

#[test]
fn the_plan_knows_which_files_of_the_host_it_shows() {
    let mut scene = Scene::new("src/project");
    for path in [".cargo/bin/tool", ".ssh/id", "src/other/file"] {
        scene.write(&scene.home().join(path), "");
    }
    scene.request.program = vec!["/bin/sh".into()];
    let plan = sandbox_plan::plan(&scene.request).unwrap();
    for shown in
        ["/usr/bin/env".into(), scene.home().join(".cargo/bin/tool"), scene.in_workspace("x")]
    {
        assert!(plan.shows(&shown), "{}", shown.display());
    }
    for hidden in [
        "/opt/x".into(),
        scene.home().join(".ssh/id"),
        scene.home().join("src/other/file"),
        scene.in_workspace(".cursor/mcp.json"),
    ] {
        assert!(!plan.shows(&hidden), "{}", hidden.display());
    }
}

#[test]
fn the_host_is_not_visible_and_not_writable() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    let elsewhere = scene.host.path().join("elsewhere");
    scene.write(&elsewhere.join("file"), "secret");
    std::os::unix::fs::symlink("/etc/shadow", scene.in_workspace("link")).unwrap();
    let hidden = "/etc/shadow /var/log /sys /boot /opt /proc/1/root/etc/shadow link";
    let done = scene.run(&format!(
        "for p in {} {hidden}; do cat $p 2>/dev/null; ls -d $p 2>/dev/null | grep -v link; done
         for d in / /usr /etc /dev /etc/ssl /run/caretaker; do touch $d/x 2>/dev/null && echo wrote $d; done; true",
        elsewhere.display()
    ));
    assert_eq!(done, "");

    // Inside, `/` has only these names, and the first part of the path to the test's home.
    let way = scene.home().components().nth(1).unwrap().as_os_str().to_string_lossy().into_owned();
    let known = "bin dev etc lib lib32 lib64 libx32 nix proc run sbin tmp usr".split(' ');
    let known: Vec<&str> = known.chain([way.as_str()]).collect();
    let top = scene.run("ls /");
    assert!(top.lines().all(|name| known.contains(&name)), "{top}");
}

#[test]
fn the_sandbox_knows_its_own_user_and_no_other() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    let (uid, home) = (scene.request.user.uid, scene.home().display().to_string());
    let root = if uid == 0 { "" } else { "root:0:/root\n" };
    let expected = format!("{root}ada:{uid}:{home}\nnobody:65534:/nonexistent\nada\n");
    assert_eq!(scene.run("cut -d: -f1,3,6 /etc/passwd; id -un"), expected);
}

#[test]
fn chats_data_and_workspace_are_kept_on_the_host() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    scene.run("echo 1 > new; echo 2 > ~/.cursor/chats/bucket/session/new; echo 3 > ~/.cursor/projects/new");
    let read = |path: PathBuf| fs::read_to_string(path).unwrap();
    assert_eq!(read(scene.in_workspace("new")), "1\n");
    assert_eq!(read(scene.request.chats.views[0].sessions[0].join("new")), "2\n");
    assert_eq!(read(scene.request.data_root.join("new")), "3\n");
}

#[test]
fn other_sessions_of_the_workspace_are_hidden_and_the_runs_own_cannot_be_moved_aside() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    let on_host = scene.request.chats.views[0].sessions[0].parent().unwrap().to_owned();
    fs::write(on_host.join("another/store.db"), "another's").unwrap();
    let seen = scene.run(
        "cd ~/.cursor/chats/bucket; ls; mv session aside 2>&1 | grep -c busy; rmdir session 2>&1 | grep -c busy; \
         mkdir child another; echo child > child/store.db; echo mine > another/store.db",
    );
    assert_eq!(seen, "session\n1\n1\n");
    assert_eq!(fs::read_to_string(on_host.join("another/store.db")).unwrap(), "another's");
    assert!(!on_host.join("child").exists());
    let private = scene.request.chats.bucket.join("child/store.db");
    assert_eq!(fs::read_to_string(private).unwrap(), "child\n");
}

#[test]
fn the_bucket_has_every_name_and_none_of_them_can_be_renamed() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    let mut other = scene.request.chats.views[0].clone();
    other.inside = scene.home().join(".cursor/chats/other-name");
    scene.request.chats.views.push(other);
    let seen = scene.run(
        "cd ~/.cursor/chats; echo told > bucket/session/store.db; cat other-name/session/store.db
         echo child > bucket/child; cat other-name/child
         for to in other-name third-name; do
             perl -e 'rename(\"bucket\", shift) or print(\"$!\\n\")' $to
             perl -e 'rename(\"bucket/session\", shift) or print(\"$!\\n\")' $to/session
         done",
    );
    let busy = "Device or resource busy\n";
    let other_mount = "Invalid cross-device link\n";
    assert_eq!(seen, format!("told\nchild\n{busy}{other_mount}{busy}No such file or directory\n"));
}

#[test]
fn a_session_whose_directory_is_a_link_is_refused() {
    let mut scene = Scene::new("project");
    scene.program(&["/bin/true"]);
    let session = scene.request.chats.views[0].sessions[0].clone();
    fs::remove_dir(&session).unwrap();
    std::os::unix::fs::symlink(scene.home().join(".ssh"), &session).unwrap();
    let refused = sandbox_plan::plan(&scene.request).unwrap_err().to_string();
    assert!(refused.contains("a symlink, not a directory"), "{refused}");
}

#[test]
fn only_listed_variables_enter_and_the_supervisors_own_stay_hidden() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    let secrecy = Secrecy::Public;
    for name in ["LANG", "LC_ALL", "LD_PRELOAD", "MY_TOKEN"] {
        let (name, value, source) = (name.into(), "host".into(), VariableSource::Host);
        scene.request.env.push(EnvVariable { name, value, source, secrecy });
    }
    scene.request.env.push(run_variable("LANG", "run"));
    let seen = scene.run(
        "env | grep -v -e ^PWD= -e ^_= -e ^OLDPWD= -e ^SHLVL= | sort; ls -A /proc/1; cat /proc/1/environ 2>/dev/null || echo hidden",
    );
    let home = scene.home().display();
    let expected = format!(
        "HOME={home}\nLANG=run\nLC_ALL=host\nPATH=/usr/local/bin:/usr/bin:/bin\nTMPDIR=/tmp\nhidden\n"
    );
    assert_eq!(seen, expected);
}

#[test]
fn memory_file_systems_have_their_sizes_and_the_workspace_can_be_anywhere() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    // A workspace in `/dev/shm` would take the host's memory. `/var/tmp` is outside all private directories.
    let outside = tempfile::TempDir::new_in("/var/tmp").unwrap();
    scene.request.workspace = fs::canonicalize(outside.path()).unwrap();
    let sizes = scene
        .run("df -m --output=size,target /tmp /run /dev/shm ~ | tail -n +2 | awk '{print $1}'");
    assert_eq!(sizes, "1024\n1\n64\n1024\n");
    assert_eq!(scene.run("pwd; touch here"), format!("{}\n", scene.workspace().display()));
    assert!(scene.in_workspace("here").exists());
}

#[test]
fn a_sandbox_without_network_has_a_loopback_and_nothing_else() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    scene.request.network = Some(NetworkMode::None);
    let seen = scene.run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; cat /etc/hosts | head -1; ls /etc/resolv.conf 2>&1 | wc -l");
    assert_eq!(seen, "lo\n127.0.0.1 localhost\n1\n");
    scene.request.network = Some(NetworkMode::Host);
    assert_eq!(
        scene.run("test -e /etc/resolv.conf && echo yes").trim(),
        match Path::new("/etc/resolv.conf").exists() {
            true => "yes",
            false => "",
        }
    );
}

#[test]
fn names_may_contain_spaces_newlines_quotes_and_invalid_utf8() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("with space 'and' \"quotes\"\nand line");
    let odd = |name: &[u8]| OsString::from_vec(name.to_vec());
    let tools = scene.host.path().join(odd(b"tools \xff\n\\040'"));
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("tool"), "#!/bin/sh\necho found\n").unwrap();
    fs::set_permissions(tools.join("tool"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let moved = scene.request.dot_cursor.with_file_name(odd(b"dot \xfe\ncursor"));
    fs::rename(&scene.request.dot_cursor, &moved).unwrap();
    scene.request.dot_cursor = moved;
    let tools = fs::canonicalize(tools).unwrap();
    scene.request.expose.push(tools.clone());
    let file = sandbox_plan::PrivateFile {
        path: odd(b".odd \xfd\n").into(),
        contents: b"x".to_vec(),
        mode: 0o600,
    };
    scene.request.private_home_files.push(file);
    scene.request.env.push(run_variable("TOOLS", tools));
    assert_eq!(
        scene.run("\"$TOOLS/tool\"; cat .cursor/mcp.json; ls -a ~ | grep -c odd; touch made"),
        "found\nours\n1\n"
    );
    assert!(scene.in_workspace("made").exists());
}

#[test]
fn a_home_whose_name_is_invalid_utf8_works() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    let root = fs::canonicalize(scene.host.path()).unwrap();
    let home = root.join(OsString::from_vec(b"h\xf6me of\n'ada'".to_vec()));
    scene.write(&home.join("secret"), "secret");
    scene.write(&home.join(".cargo/bin/tool"), "tool\n");
    scene.request.chats.views[0].inside = home.join(".cursor/chats/bucket");
    scene.request.env.push(run_variable("HOME", &home));
    scene.request.home = home;
    assert_eq!(scene.run("cat ~/.cargo/bin/tool; ls -A ~; touch ~/x"), "tool\n.cargo\n.cursor\n");
}

#[test]
fn the_workspace_may_be_read_only() {
    if !sandboxes_work() {
        return;
    }
    let profile = format!("{}\n", builtin_profiles()[0].1)
        .replace("access = \"read-write\"", "access = \"read-only\"");
    let mut scene = Scene::with_profile("project", &profile);
    scene.write(&scene.in_workspace(".git/config"), "");
    let seen = scene.run("for f in x .git/x .cursor/x; do touch $f 2>/dev/null && echo wrote $f; done; cat .cursor/mcp.json");
    assert_eq!(seen, OURS);
}

#[test]
fn tools_behind_links_are_found_where_they_were_named() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    let elsewhere = scene.host.path().join("data/cargo");
    scene.write(&elsewhere.join("bin/tool"), "tool\n");
    std::os::unix::fs::symlink(&elsewhere, scene.home().join(".cargo")).unwrap();
    assert_eq!(
        scene.run("cat ~/.cargo/bin/tool; touch ~/.cargo/registry && echo writable"),
        "tool\nwritable\n"
    );
    assert!(!elsewhere.join("registry").exists());
}

#[test]
fn the_login_is_mounted_if_there_is_one_and_the_agent_can_refresh_it() {
    let mut scene = Scene::new("src/project");
    scene.program(&["/bin/true"]);
    let inside = scene.home().join(".config/cursor").display().to_string();
    let explained = |scene: &Scene| {
        let lines = scene.plan().explain();
        lines.into_iter().map(|line| line.detail).filter(|line| line.contains(&inside)).collect()
    };
    let without: Vec<String> = explained(&scene);
    assert_eq!(without, Vec::<String>::new());
    let login = scene.request.dot_cursor.with_file_name("login");
    fs::create_dir(&login).unwrap();
    scene.request.login = Some(login);
    let with: Vec<String> = explained(&scene);
    assert!(with.len() == 1 && with[0].contains("read-write"), "{with:?}");
}
