//! Checks a project: the tools that it needs, and the dependencies that this host has for them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use admission::command_error::CommandError;
use admission::host::environment::Environment;
use nix::unistd::{AccessFlags, access};
use sandbox_plan::SandboxPlan;

use crate::health::Finding;

/// A kind of project.
struct Kind {
    id: &'static str,
    manifests: &'static [&'static str],
    programs: &'static [&'static str],
    /// Directories in the workspace with installed dependencies.
    installed: &'static [&'static str],
    /// The variable that names the directory of the tool's files, the directory if it is not set (if there is one), and
    /// where the dependencies are in that directory.
    caches: &'static [(&'static str, &'static str, &'static str)],
    /// How to get the dependencies onto this host.
    fetch: &'static str,
}

const FETCH: &str = "fetch them once on this machine, or let the run fetch them: --registries";

const KINDS: [Kind; 6] = [
    Kind {
        id: "cargo",
        manifests: &["Cargo.toml"],
        programs: &["cargo"],
        installed: &["vendor"],
        caches: &[("CARGO_HOME", ".cargo", "registry/cache")],
        fetch: FETCH,
    },
    Kind {
        id: "npm",
        manifests: &["package.json"],
        programs: &["node", "npm"],
        installed: &["node_modules"],
        caches: &[
            ("npm_config_cache", ".npm", "_cacache"),
            ("PNPM_HOME", ".local/share/pnpm", "store"),
            ("YARN_CACHE_FOLDER", ".cache/yarn", ""),
        ],
        fetch: FETCH,
    },
    Kind {
        id: "python",
        manifests: &["pyproject.toml", "requirements.txt"],
        programs: &["python3"],
        installed: &[".venv", "venv"],
        // Not pip's own cache: without its index, pip finds nothing there.
        caches: &[("UV_CACHE_DIR", ".cache/uv", ""), ("VIRTUAL_ENV", "", "")],
        fetch: "install them into a virtualenv and activate it, use uv, or let the run fetch them: --registries",
    },
    Kind {
        id: "go",
        manifests: &["go.mod"],
        programs: &["go"],
        installed: &["vendor"],
        caches: &[("GOMODCACHE", "go/pkg/mod", "cache/download")],
        fetch: FETCH,
    },
    Kind {
        id: "maven",
        manifests: &["pom.xml"],
        programs: &["java", "mvn"],
        installed: &[],
        caches: &[("", ".m2", "repository")],
        fetch: FETCH,
    },
    Kind {
        id: "gradle",
        manifests: &["build.gradle", "build.gradle.kts"],
        programs: &["java"],
        installed: &[],
        caches: &[("GRADLE_USER_HOME", ".gradle", "caches/modules-2")],
        fetch: FETCH,
    },
];

/// The checks of the project in this directory, in the sandbox that a run there would have.
pub(crate) fn of(
    environment: &Environment,
    workspace: &Path,
    plan: Result<SandboxPlan, CommandError>,
) -> Vec<Finding> {
    match plan {
        Ok(plan) => findings(environment, workspace, |path| plan.shows(path)),
        Err(error) => vec![Finding::from_error("project", &error)],
    }
}

fn findings(
    environment: &Environment,
    workspace: &Path,
    is_shown: impl Fn(&Path) -> bool,
) -> Vec<Finding> {
    let found: Vec<Finding> = KINDS
        .iter()
        .filter_map(|kind| {
            let has = |name: &&&str| workspace.join(name).symlink_metadata().is_ok();
            let manifest = kind.manifests.iter().find(has)?;
            Some(kind.finding(environment, workspace, manifest, &is_shown))
        })
        .collect();
    if found.is_empty() {
        let summary = format!("no manifest of a known tool in {}", workspace.display());
        return vec![Finding::ok("project", summary)];
    }
    found
}

/// Where a program is, as the sandbox's PATH finds it.
enum Place {
    Inside(PathBuf),
    OnlyOutside(PathBuf),
    Nowhere,
}

impl Kind {
    fn finding(
        &self,
        environment: &Environment,
        workspace: &Path,
        manifest: &str,
        is_shown: &impl Fn(&Path) -> bool,
    ) -> Finding {
        let mut visible = Vec::new();
        for name in self.programs {
            match place(environment, name, is_shown) {
                Place::Inside(path) => visible.push(path.display().to_string()),
                Place::OnlyOutside(path) => {
                    let summary = format!("{manifest}: {} is not visible inside", path.display());
                    let directory = path.parent().unwrap_or(&path).display();
                    let fix = format!("show the tool's directory, as with --expose '{directory}'");
                    return Finding::warning(self.id, summary, fix);
                }
                Place::Nowhere => {
                    let summary = format!("{manifest}: `{name}` is not on PATH");
                    let fix = "install it on this machine: the sandbox shows the host's programs";
                    return Finding::warning(self.id, summary, fix);
                }
            }
        }
        let tools = format!("{manifest}: {} visible inside", visible.join(" and "));
        let installed = self.installed.iter().map(|name| workspace.join(name));
        let caches: Vec<PathBuf> =
            self.caches.iter().filter_map(|cache| directory(environment, cache)).collect();
        match installed.chain(caches.iter().cloned()).find(|place| place.is_dir()) {
            Some(place) => {
                Finding::ok(self.id, format!("{tools}; dependencies in {}", place.display()))
            }
            None => Finding::warning(
                self.id,
                format!("{tools}; this host has no dependencies in {}", caches[0].display()),
                self.fetch,
            ),
        }
    }
}

/// Returns the directory of a tool's dependencies. `None` if only its variable names it, and it is not set.
fn directory(
    environment: &Environment,
    (variable, usual, below): &(&str, &str, &str),
) -> Option<PathBuf> {
    let set = environment.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = (!usual.is_empty()).then(|| environment.home.join(usual));
    let home = set.or(usual)?;
    // Joining an empty path would add a slash.
    Some(if below.is_empty() { home } else { home.join(below) })
}

/// Looks for a program as a shell inside does: on the host's PATH, but only in visible directories.
fn place(environment: &Environment, name: &str, is_shown: &impl Fn(&Path) -> bool) -> Place {
    let path = environment.variable("PATH").unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let mut outside = Place::Nowhere;
    for file in std::env::split_paths(path).map(|directory| directory.join(name)) {
        if !file.is_absolute() || !file.is_file() || access(&file, AccessFlags::X_OK).is_err() {
            continue;
        }
        let is_inside = is_shown(&file) && file.canonicalize().is_ok_and(|real| is_shown(&real));
        match (is_inside, &outside) {
            (true, _) => return Place::Inside(file),
            (false, Place::Nowhere) => outside = Place::OnlyOutside(file),
            (false, _) => {}
        }
    }
    outside
}

#[cfg(test)]
#[path = "project_tests.rs"]
mod tests;
