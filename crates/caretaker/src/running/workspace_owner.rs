//! If root starts the command, it first becomes the owner of the workspace.
//!
//! The files of an agent that runs as root belong to root, and neither limits nor file modes stop the agent. So if the
//! workspace belongs to another user, the whole command continues as that user, with that user's home, login, agent and
//! state directory. No part of the run belongs to root.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use admission::command_error::CommandError;
use admission::host::environment::Environment;
use admission::host::places::is_private_directory_of;
use admission::words::talk::note;
use nix::unistd::{Gid, Uid, User};
use run_protocol::ExitCode;

use crate::command_helper::CommandHelper;

/// Home directories for owners without one, for example in containers.
const HOMES: &str = "/var/lib/caretaker/homes";

/// The user that a workspace belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    uid: Uid,
    gid: Gid,
    name: Option<String>,
    /// The home in the user database; it need not exist.
    home: Option<PathBuf>,
}

/// Starts this command again as the owner of the workspace, if the caller is root and the workspace belongs to another
/// user. Otherwise it returns.
pub(crate) fn become_owner(
    helper: &CommandHelper,
    workspace: Option<&Path>,
) -> Result<(), CommandError> {
    let environment = &helper.host.environment;
    let workspace = match workspace {
        Some(named) => environment.absolute(named),
        None => environment.working_directory.clone(),
    };
    if !environment.uid.is_root() {
        return Ok(());
    }
    // A later check refuses a workspace that cannot be read, and says why.
    let Ok(found) = fs::metadata(&workspace) else { return Ok(()) };
    if found.uid() == 0 || !found.is_dir() {
        return Ok(());
    }
    let owner = Owner::of(Uid::from_raw(found.uid()), Gid::from_raw(found.gid()));
    let home = owner.home_directory(&environment.home)?;
    let program = helper.program()?;
    note(&format!(
        "you are root and `{}` belongs to {}, so the run belongs to them too; see it with: {}",
        workspace.display(),
        owner.called(),
        owner.command("caretaker ps")
    ));
    let mut command = Command::new(program);
    command
        .args(std::env::args_os().skip(1))
        .env_clear()
        .envs(owner.variables(environment, &home))
        .uid(owner.uid.as_raw())
        .gid(owner.gid.as_raw());
    // The standard library drops supplementary groups, because the caller is root.
    let error = command.exec();
    let what = format!("cannot start `{}` as {}", program.display(), owner.called());
    Err(CommandError::new(ExitCode::SupervisorFailed, what).because(error).hint(format!(
        "install it where every user can reach it: install -m 755 '{}' /usr/local/bin/caretaker",
        program.display()
    )))
}

impl Owner {
    fn of(uid: Uid, directory_gid: Gid) -> Self {
        match User::from_uid(uid).ok().flatten() {
            Some(user) => Self { uid, gid: user.gid, name: Some(user.name), home: Some(user.dir) },
            None => {
                // The directory's group may be root's group, which would keep root's rights.
                let is_root = directory_gid.as_raw() == 0;
                let gid = if is_root { Gid::from_raw(uid.as_raw()) } else { directory_gid };
                Self { uid, gid, name: None, home: None }
            }
        }
    }

    fn called(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} (user {})", self.uid),
            None => format!("user {}", self.uid),
        }
    }

    fn command(&self, words: &str) -> String {
        match &self.name {
            Some(name) => format!("runuser -u {name} -- {words}"),
            None => {
                format!("setpriv --reuid {} --regid {} --clear-groups {words}", self.uid, self.gid)
            }
        }
    }

    /// The caller's HOME if it belongs to the owner, or else the owner's home, or else a new one.
    fn home_directory(&self, named: &Path) -> Result<PathBuf, CommandError> {
        let is_theirs = |path: &Path| {
            fs::metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == self.uid.as_raw())
        };
        if is_theirs(named) {
            return Ok(named.to_owned());
        }
        if let Some(home) = self.home.as_deref().filter(|home| is_theirs(home)) {
            return Ok(home.to_owned());
        }
        let home = Path::new(HOMES).join(self.uid.to_string());
        make_home(&home, self).map(|()| home.clone()).map_err(|error| {
            let what = format!("{} has no home directory, and it cannot be created", self.called());
            CommandError::new(ExitCode::SupervisorFailed, what)
                .because(error)
                .hint("name a directory that belongs to them: HOME=DIR caretaker …")
        })
    }

    fn variables(&self, environment: &Environment, home: &Path) -> Vec<(OsString, OsString)> {
        let is_same_home = home == environment.home;
        // Drop the variables that name root's directories, but keep those that name Caretaker's.
        let stays = |name: &OsStr| {
            let name = name.to_string_lossy();
            !matches!(&*name, "HOME" | "USER" | "LOGNAME" | "MAIL")
                && (is_same_home || !name.starts_with("XDG_"))
        };
        let mut variables: Vec<(OsString, OsString)> =
            environment.variables().filter(|(name, _)| stays(name)).cloned().collect();
        variables.push(("HOME".into(), home.into()));
        if let Some(name) = &self.name {
            variables.push(("USER".into(), name.into()));
            variables.push(("LOGNAME".into(), name.into()));
        }
        variables
    }
}

fn make_home(home: &Path, owner: &Owner) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(Path::new(HOMES))?;
    match DirBuilder::new().mode(0o700).create(home) {
        Ok(()) => chown(home, Some(owner.uid.as_raw()), Some(owner.gid.as_raw())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_fine = is_private_directory_of(home, owner.uid);
            let problem = format!(
                "`{}` is not a private directory that belongs to that user",
                home.display()
            );
            if is_fine { Ok(()) } else { Err(io::Error::other(problem)) }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::surroundings::tests::environment_of;

    #[test]
    fn an_unknown_owner_never_gets_roots_group() {
        let unknown = Uid::from_raw(3_000_000_123);
        assert_eq!(Owner::of(unknown, Gid::from_raw(0)).gid.as_raw(), 3_000_000_123);
        let owner = Owner::of(unknown, Gid::from_raw(77));
        assert_eq!(owner.gid.as_raw(), 77);
        assert_eq!(owner.called(), "user 3000000123");
        let command = "setpriv --reuid 3000000123 --regid 77 --clear-groups caretaker ps";
        assert_eq!(owner.command("caretaker ps"), command);
    }

    #[test]
    fn the_callers_own_directories_are_not_passed_on() {
        let environment = environment_of(&[
            ("HOME", Path::new("/root")),
            ("USER", Path::new("root")),
            ("XDG_STATE_HOME", Path::new("/root/state")),
            ("CARETAKER_HOME", Path::new("/srv/caretaker")),
            ("CURSOR_API_KEY", Path::new("key")),
        ]);
        let owner = Owner {
            uid: Uid::from_raw(1234),
            gid: Gid::from_raw(1234),
            name: Some("ada".to_owned()),
            home: None,
        };
        let names_with = |home: &str| -> Vec<String> {
            let variables = owner.variables(&environment, Path::new(home));
            variables
                .iter()
                .map(|(name, value)| format!("{}={}", name.display(), value.display()))
                .collect()
        };
        assert_eq!(
            names_with("/home/ada"),
            [
                "CARETAKER_HOME=/srv/caretaker",
                "CURSOR_API_KEY=key",
                "HOME=/home/ada",
                "USER=ada",
                "LOGNAME=ada"
            ]
        );
        assert!(names_with("/root").contains(&"XDG_STATE_HOME=/root/state".to_owned()));
    }
}
