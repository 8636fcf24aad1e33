//! A systemd scope around the processes of a run. The shim asks for it with systemd's own `busctl`.
//!
//! systemd puts the sandbox's processes into the scope while the gate holds the sandbox, so no systemd process is
//! between the shim and bubblewrap. The scope ends when it is empty.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use run_protocol::ResourceLimits;

use super::hierarchy::Hierarchies;

/// This directory exists if systemd manages the machine.
const RUNNING: &str = "/run/systemd/system";
const BUSCTL: [&str; 2] = ["/usr/bin/busctl", "/bin/busctl"];
/// How long to wait until systemd has moved the processes. It answers before it has moved them.
const PATIENCE: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// systemd, ready to make a scope.
#[derive(Debug)]
pub(in crate::limits) struct ScopeMaker {
    busctl: &'static str,
    bus: String,
    unit: String,
    mount: PathBuf,
}

/// Returns whether systemd manages the control group tree.
pub(in crate::limits) fn systemd_is_running() -> bool {
    Path::new(RUNNING).is_dir()
}

impl ScopeMaker {
    /// An error explains why the shim cannot use systemd.
    pub(in crate::limits) fn find(hierarchies: &Hierarchies, id: &str) -> Result<Self, String> {
        if !systemd_is_running() {
            return Err("systemd does not manage this machine".to_owned());
        }
        let mount = match &hierarchies.unified {
            Some(placement) if !hierarchies.legacy.contains_key("memory") => {
                placement.mount.clone()
            }
            _ => return Err("systemd has no cgroup v2 tree with memory in it".to_owned()),
        };
        let busctl = BUSCTL.into_iter().find(|path| Path::new(path).exists());
        let busctl = busctl.ok_or_else(|| "`busctl` is not installed".to_owned())?;
        let uid = nix::unistd::geteuid();
        let bus = match uid.is_root() {
            true => "--system".to_owned(),
            false => {
                let socket = format!("/run/user/{uid}/bus");
                if !Path::new(&socket).exists() {
                    return Err(format!("there is no systemd session at `{socket}`"));
                }
                format!("--address=unix:path={socket}")
            }
        };
        Ok(Self { busctl, bus, unit: format!("caretaker-{id}.scope"), mount })
    }

    /// Makes a scope for these processes. Returns its directory once they are in it and the limits are set.
    pub(in crate::limits) fn make(
        &self,
        pids: &[u32],
        limits: &ResourceLimits,
    ) -> io::Result<PathBuf> {
        let first = *pids.first().ok_or(io::ErrorKind::InvalidInput)?;
        let output = Command::new(self.busctl)
            .args([&self.bus, "--timeout=5", "call"])
            .args(["org.freedesktop.systemd1", "/org/freedesktop/systemd1"])
            .args(["org.freedesktop.systemd1.Manager", "StartTransientUnit"])
            .args(call(&self.unit, pids, limits))
            .env_clear()
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(io::Error::other(format!("systemd refused the scope: {complaint}")));
        }
        let until = Instant::now() + PATIENCE;
        let directory = loop {
            if let Some(directory) = self.directory_of(first) {
                break directory;
            }
            if Instant::now() > until {
                return Err(io::Error::other("systemd did not move the processes in time"));
            }
            std::thread::sleep(BETWEEN_LOOKS);
        };
        check(&directory, limits)?;
        Ok(directory)
    }

    /// Returns the scope's directory, once this process is in it.
    fn directory_of(&self, pid: u32) -> Option<PathBuf> {
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        path.ends_with(&self.unit).then(|| self.mount.join(path))
    }
}

/// The arguments for `busctl`: signature, name, mode, properties, no further units.
fn call(unit: &str, pids: &[u32], limits: &ResourceLimits) -> Vec<String> {
    let mut properties = vec![
        property("Description", "s", &["A Caretaker run".to_owned()]),
        // systemd removes the scope at its end, even if the kernel killed it.
        property("CollectMode", "s", &["inactive-or-failed".to_owned()]),
    ];
    let numbers: Vec<String> =
        std::iter::once(pids.len().to_string()).chain(pids.iter().map(u32::to_string)).collect();
    properties.push(property("PIDs", "au", &numbers));
    let mut number = |name: &str, value: u64| {
        properties.push(property(name, "t", &[value.to_string()]));
    };
    if limits.memory_bytes > 0 {
        number("MemoryMax", limits.memory_bytes);
        number("MemorySwapMax", 0);
    }
    if limits.processes > 0 {
        number("TasksMax", limits.processes);
    }
    if limits.cpu_weight > 0 {
        number("CPUWeight", limits.cpu_weight.clamp(1, 10_000));
    }
    if limits.cpu_milli > 0 {
        number("CPUQuotaPerSecUSec", limits.cpu_milli.saturating_mul(1000));
    }
    let head = ["ssa(sv)a(sa(sv))", unit, "fail", &properties.len().to_string()].map(str::to_owned);
    head.into_iter().chain(properties.into_iter().flatten()).chain(["0".to_owned()]).collect()
}

fn property(name: &str, kind: &str, values: &[String]) -> Vec<String> {
    [name.to_owned(), kind.to_owned()].into_iter().chain(values.iter().cloned()).collect()
}

/// Checks the limits in the kernel's files, because not every systemd session has every controller.
fn check(directory: &Path, limits: &ResourceLimits) -> io::Result<()> {
    for (file, wanted) in [("memory.max", limits.memory_bytes), ("pids.max", limits.processes)] {
        if wanted == 0 {
            continue;
        }
        let set = std::fs::read_to_string(directory.join(file))
            .map_err(|error| io::Error::other(format!("the scope has no `{file}`: {error}")))?;
        // The kernel counts memory in pages.
        let is_held = set.trim().parse::<u64>().is_ok_and(|set| set <= wanted);
        if !is_held {
            let what = format!("the scope's `{file}` is {}, not {wanted}", set.trim());
            return Err(io::Error::other(what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_names_every_process_and_every_limit() {
        let limits = ResourceLimits {
            memory_bytes: 1 << 30,
            processes: 64,
            cpu_milli: 1500,
            ..ResourceLimits::default()
        };
        let words = call("caretaker-x.scope", &[7, 8], &limits).join(" ");
        assert_eq!(
            words,
            "ssa(sv)a(sa(sv)) caretaker-x.scope fail 7 Description s A Caretaker run \
             CollectMode s inactive-or-failed PIDs au 2 7 8 MemoryMax t 1073741824 \
             MemorySwapMax t 0 TasksMax t 64 CPUQuotaPerSecUSec t 1500000 0"
        );
    }

    #[test]
    fn a_scope_without_its_limits_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let limits = ResourceLimits { memory_bytes: 4096, processes: 8, ..Default::default() };
        let put =
            |file: &str, text: &str| std::fs::write(directory.path().join(file), text).unwrap();
        let complaint = || check(directory.path(), &limits).unwrap_err().to_string();
        assert!(complaint().contains("no `memory.max`"), "{}", complaint());
        put("memory.max", "max\n");
        assert_eq!(complaint(), "the scope's `memory.max` is max, not 4096");
        put("memory.max", "4096\n");
        put("pids.max", "8\n");
        check(directory.path(), &limits).unwrap();
    }
}
