//! A host in a temporary directory: home, workspace, state, and the directories of a run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use sandbox_plan::{
    BucketView, ChatsBind, EnvVariable, MountPoints, Placeholders, PrivateFile, Profile,
    RunDirectories, SandboxPlan, SandboxRequest, SandboxUser, Secrecy, VariableSource,
    builtin_profiles, plan,
};
use tempfile::TempDir;

use crate::launch;

/// The content of a scene's mcp.json.
pub(crate) const OURS: &str = "ours\n";
/// The session of a scene's run. The workspace has two sessions.
pub(crate) const SESSION: &str = "session";

pub(crate) struct Scene {
    pub(crate) host: TempDir,
    pub(crate) request: SandboxRequest,
}

impl Scene {
    /// Makes a host whose workspace is `workspace`, relative to the home directory.
    pub(crate) fn new(workspace: &str) -> Self {
        Self::with_profile(workspace, builtin_profiles()[0].1)
    }

    pub(crate) fn with_profile(workspace: &str, profile: &str) -> Self {
        let host = TempDir::new().unwrap();
        let root = fs::canonicalize(host.path()).unwrap();
        let home = root.join("home/ada");
        let workspace = home.join(workspace);
        let run = home.join(".local/state/caretaker/runs/1");
        let bucket = home.join(".cursor/chats/bucket");
        let session = bucket.join(SESSION);
        let private_bucket = run.join("chats");
        let made = [run.join("dotcursor"), run.join("inside"), run.join("data")];
        let own_sessions = [session.clone(), bucket.join("another"), private_bucket.join(SESSION)];
        for directory in made.iter().chain(&own_sessions).chain([&workspace]) {
            fs::create_dir_all(directory).unwrap();
        }
        fs::create_dir(run.join("nothing")).unwrap();
        fs::write(run.join("no-file"), "").unwrap();
        fs::write(run.join("commondir"), sandbox_plan::OWN_COMMON_DIR).unwrap();
        fs::write(run.join("shadow"), sandbox_plan::SHADOW_COMMON_DIR).unwrap();
        fs::create_dir_all(home.join(".ssh")).unwrap();
        fs::write(home.join(".ssh/id"), "key").unwrap();
        fs::write(run.join("dotcursor/mcp.json"), OURS).unwrap();

        let [dot_cursor, inside_sockets, data_root] = made;
        let request = SandboxRequest {
            profile: Profile::parse("test", profile).unwrap(),
            network: None,
            allow_hosts: Vec::new(),
            reaches_registries: false,
            workspace,
            user: SandboxUser {
                uid: rustix::process::getuid().as_raw(),
                gid: rustix::process::getgid().as_raw(),
                name: "ada".to_owned(),
            },
            ours: vec![home.join(".local/state/caretaker")],
            run_directories: RunDirectories::MustExist,
            placeholders: Placeholders {
                directory: run.join("nothing"),
                file: run.join("no-file"),
                common_dir: run.join("commondir"),
                shadow_common_dir: run.join("shadow"),
            },
            dot_cursor,
            inside_sockets,
            data_root,
            chats: ChatsBind {
                bucket: private_bucket,
                views: vec![BucketView {
                    inside: home.join(".cursor/chats/bucket"),
                    sessions: vec![session],
                }],
            },
            login: None,
            private_home_files: Vec::new(),
            expose: Vec::new(),
            stand_ins: BTreeMap::new(),
            program: Vec::new(),
            env: vec![
                run_variable("PATH", "/usr/local/bin:/usr/bin:/bin"),
                run_variable("HOME", &home),
            ],
            certificates: BTreeMap::new(),
            caches: Vec::new(),
            cache_directory: run.join("caches"),
            home,
        };
        Self { host, request }
    }

    pub(crate) fn home(&self) -> &Path {
        &self.request.home
    }

    pub(crate) fn workspace(&self) -> &Path {
        &self.request.workspace
    }

    pub(crate) fn in_workspace(&self, relative: &str) -> PathBuf {
        self.request.workspace.join(relative)
    }

    /// Writes a file on the host, and makes its directories.
    pub(crate) fn write(&self, path: &Path, contents: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    pub(crate) fn private_file(&mut self, path: &str, contents: &str, mode: u32) {
        let (path, contents) = (path.into(), contents.into());
        self.request.private_home_files.push(PrivateFile { path, contents, mode });
    }

    pub(crate) fn program(&mut self, words: &[&str]) {
        self.request.program = words.iter().map(OsString::from).collect();
    }

    pub(crate) fn plan(&self) -> SandboxPlan {
        plan(&self.request).unwrap()
    }

    /// Prepares the host as the shim does.
    pub(crate) fn prepare(&self, plan: &SandboxPlan) {
        plan.dot_cursor_mounts().create().unwrap();
        plan.mount_points_to_create().create(&self.record()).unwrap();
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.host.path().join("mount-points")
    }

    /// Runs a shell script inside, and returns its output.
    pub(crate) fn run(&mut self, script: &str) -> String {
        self.program(&["/bin/sh", "-c", script]);
        let output = self.run_program();
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
        stdout.into_owned()
    }

    /// Runs the request's program inside, from the plan to the removal of mount points.
    pub(crate) fn run_program(&self) -> Output {
        let plan = self.plan();
        self.prepare(&plan);
        let mut blocked = launch::start(&plan);
        let verified = blocked.verify(&plan);
        let output = match verified {
            Ok(_) => blocked.finish(),
            Err(mismatch) => {
                let stderr = blocked.kill().stderr;
                panic!("{mismatch}: {}", String::from_utf8_lossy(&stderr));
            }
        };
        MountPoints::remove_ours(&self.record()).unwrap();
        output
    }
}

pub(crate) fn run_variable(name: &str, value: impl Into<OsString>) -> EnvVariable {
    let (name, value) = (name.into(), value.into());
    EnvVariable { name, value, source: VariableSource::Run, secrecy: Secrecy::Public }
}
