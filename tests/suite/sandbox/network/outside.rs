//! A stage with an outside network.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::stage::Stage;
use crate::stage::namespace::Namespace;

/// The programs that the network tests need, and their packages.
const PROGRAMS: [(&str, &str); 6] = [
    ("node", "nodejs"),
    ("curl", "curl"),
    ("git", "git"),
    ("python3", "python3"),
    ("openssl", "openssl"),
    ("ip", "iproute2"),
];

/// Fails if a program is missing on this machine.
#[track_caller]
pub(crate) fn require(programs: &[&str]) {
    for program in programs {
        let places = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
        let is_there = places.iter().any(|place| PathBuf::from(place).join(program).exists());
        let package = PROGRAMS.iter().find(|(name, _)| name == program).map_or("", |found| found.1);
        assert!(
            is_there,
            "`{program}` is missing: run `cargo xtask test`, which installs it, or: apt-get install {package}"
        );
    }
}

pub(crate) struct Outside {
    pub(crate) stage: Stage,
    namespace: Namespace,
}

impl Outside {
    /// Returns `None` if this machine cannot create a network.
    pub(crate) fn new() -> Option<Self> {
        let namespace = Namespace::with_network()?;
        require(&PROGRAMS.map(|(program, _)| program));
        let outside = Self { stage: Stage::new(), namespace };
        let world = outside.world();
        std::fs::create_dir(&world).unwrap();
        for (name, content) in [
            ("outside.sh", include_str!("outside.sh")),
            ("tunnel.sh", include_str!("tunnel.sh")),
            ("tunnel.py", include_str!("tunnel.py")),
            ("host.js", include_str!("host.js")),
            ("mcp_server.js", include_str!("mcp_server.js")),
            ("resolv.conf", "nameserver 203.0.113.10\n"),
            ("hosts", "127.0.0.1 localhost\n"),
            ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
        ] {
            std::fs::write(world.join(name), content).unwrap();
        }
        outside.make_certificate();
        std::fs::create_dir(world.join("certs")).unwrap();
        std::fs::copy(world.join("ca.pem"), world.join("certs/ca-certificates.crt")).unwrap();
        outside.make_repository();
        let workspace = outside.stage.workspace();
        std::fs::copy(world.join("ca.pem"), workspace.join("ca.pem")).unwrap();
        std::fs::write(workspace.join("attempts.js"), include_str!("attempts.js")).unwrap();
        Some(outside)
    }

    pub(crate) fn world(&self) -> PathBuf {
        self.stage.root().join("world")
    }

    /// Makes a self-signed certificate for every name outside.
    fn make_certificate(&self) {
        let names = "subjectAltName=DNS:allowed.test,DNS:below.test,DNS:*.below.test,DNS:denied.test,DNS:*.trap.test";
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
                     -keyout key.pem -out ca.pem -subj /CN=allowed.test -addext";
        self.run_in_world("openssl", &words.split_whitespace().chain([names]).collect::<Vec<_>>());
    }

    /// Makes a repository that any file server can serve.
    fn make_repository(&self) {
        let commit = "-c user.name=Ada -c user.email=ada@allowed.test -c commit.gpgsign=false \
                      -C repo.work commit -q --allow-empty -m first";
        for words in [
            "init -q repo.work",
            commit,
            "clone -q --bare repo.work repo.git",
            "-C repo.git update-server-info",
        ] {
            self.run_in_world("git", &words.split_whitespace().collect::<Vec<_>>());
        }
    }

    fn run_in_world(&self, program: &str, args: &[&str]) -> String {
        let output = Command::new(program)
            .args(args)
            .current_dir(self.world())
            .env("HOME", self.stage.home())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the commit of the repository's HEAD.
    pub(crate) fn commit(&self) -> String {
        self.run_in_world("git", &["-C", "repo.git", "rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Returns the requests that the outside host received, or an empty text.
    pub(crate) fn asked(&self) -> String {
        match std::fs::read_to_string(self.world().join("asked.log")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            asked => asked.unwrap(),
        }
    }

    /// Plays a script with the simulated agent in this network until the run ends.
    pub(crate) fn play(&self, script: &str, flags: &[&str]) -> Output {
        self.play_with(&[], script, flags)
    }

    /// Like [`Self::play`], but with additional environment variables on the host.
    pub(crate) fn play_with(
        &self,
        variables: &[(&str, &str)],
        script: &str,
        flags: &[&str],
    ) -> Output {
        let mut command = self.run(script, flags);
        command.envs(variables.iter().copied());
        self.in_world(&[], &command).output().unwrap()
    }

    /// Like [`Self::play`], with routes to the addresses of TUN proxies and VPNs; see `tunnel.sh` for the ways.
    pub(crate) fn play_over(&self, way: &str, script: &str, flags: &[&str]) -> Output {
        for pipe in ["near", "far"] {
            std::fs::remove_file(self.world().join(pipe)).ok();
        }
        let world = self.world().display().to_string();
        let words = ["sh".to_owned(), format!("{world}/tunnel.sh"), way.to_owned(), world];
        self.in_world(&words, &self.run(script, flags)).output().unwrap()
    }

    /// Plays a script with these variables on the host. The agent gets no variable with a certificate from the test.
    pub(crate) fn play_plainly(&self, variables: &[(&str, &str)], script: &str) -> Output {
        let prompt = format!("Play this:\n```agent\n{script}\n```\n");
        let args = ["run", "--agent", "simulated", "--allow-host", "allowed.test", &prompt];
        let mut command = self.stage.caretaker(&args);
        self.namespace.trust(&self.stage, &mut command);
        command.envs(variables.iter().copied());
        self.in_world(&[], &command).output().unwrap()
    }

    /// Like [`Self::play_with`], but for another user, who then owns everything on the stage. `words` come before the
    /// command.
    pub(crate) fn play_for(
        &self,
        owner: u32,
        words: &[String],
        script: &str,
        flags: &[&str],
    ) -> Output {
        let command = self.run(script, flags);
        crate::sandbox::strict::give_away(&self.stage.root(), owner);
        // The shim trusts only a bubblewrap that root owns.
        crate::sandbox::strict::give_away(&self.stage.root().join("bin"), 0);
        self.in_world(words, &command).output().unwrap()
    }

    /// Runs a command in this network until it ends.
    pub(crate) fn output(&self, args: &[&str]) -> Output {
        let mut command = self.stage.caretaker(args);
        self.namespace.trust(&self.stage, &mut command);
        self.in_world(&[], &command).output().unwrap()
    }

    fn run(&self, script: &str, flags: &[&str]) -> Command {
        let prompt = format!("Play this:\n```agent\n{script}\n```\n");
        let certificate = "NODE_EXTRA_CA_CERTS=ca.pem";
        let args = ["run", "--agent", "simulated", "--env", certificate, &prompt];
        let mut command = self.stage.caretaker(&[&args, flags].concat());
        self.namespace.trust(&self.stage, &mut command);
        command
    }

    fn in_world(&self, words: &[String], command: &Command) -> Command {
        for pipe in ["made", "wired", "listening"] {
            std::fs::remove_file(self.world().join(pipe)).ok();
        }
        let world = self.world();
        let script = world.join("outside.sh");
        let wrapper = ["sh", script.to_str().unwrap(), world.to_str().unwrap()];
        let words = words.iter().map(String::as_str);
        self.namespace.command(&wrapper.into_iter().chain(words).collect::<Vec<_>>(), command)
    }
}
