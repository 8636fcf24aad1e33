//! Compares two profiles: does one allow more than the other?

use super::{
    CallerRules, EnvironmentRules, HomeRules, KernelRules, NamespaceRules, Profile, Rules,
    RunRules, SeccompRules, Size, SystemRules, TemporaryRules, ToolRules, WorkspaceRules,
};
use crate::origin::Sourced;

impl Profile {
    /// Returns the keys where this profile allows more than `other`.
    ///
    /// It compares lists entry by entry as written in the profiles, so two spellings of the same directory count as a
    /// difference. It ignores `limits.*`, because a run has its own limits.
    pub fn wider_than(&self, other: &Self) -> Vec<&'static str> {
        match (&self.rules, &other.rules) {
            (_, None) => Vec::new(),
            (None, Some(_)) => vec!["confinement"],
            (Some(now), Some(before)) => now.wider_than(before),
        }
    }
}

impl Rules {
    fn wider_than(&self, other: &Self) -> Vec<&'static str> {
        // No `..` here, so that the compiler demands a comparison of each new key.
        let Self {
            caller: CallerRules { root },
            namespaces: NamespaceRules { own, hostname: _ },
            network,
            // Caretaker writes the generated files, so they reveal nothing about the host.
            system: SystemRules { read_only, links, etc, generated: _ },
            // Keys with a single possible value cannot differ.
            kernel: KernelRules { proc: _, sysctl: _, dev: _, shm },
            temporary: TemporaryRules { tmp, run, parents },
            home: home @ HomeRules { size, hooks: _ },
            tools: ToolRules { expose },
            run: RunRules { program: _, sockets: _, dot_cursor: _, chats, data },
            workspace:
                WorkspaceRules { access, show, protect, missing, unprotected, git, git_protect },
            environment: EnvironmentRules { run: variables, pass, set },
            seccomp: SeccompRules { filters },
            caches,
            limits: _,
        } = self;
        let (system, temporary, workspace) = (&other.system, &other.temporary, &other.workspace);
        let environment = &other.environment;
        let is_larger = |now: &Sourced<Size>, before: &Sourced<Size>| now.value.0 > before.value.0;
        let sets_more = set.iter().any(|(name, now)| {
            environment.set.get(name).is_none_or(|before| before.value != now.value)
        });
        let is_wider = [
            ("caller.root", root.value < other.caller.root.value),
            ("namespaces.own", has_more(&other.namespaces.own, own)),
            ("system.read_only", has_more(read_only, &system.read_only)),
            ("system.links", has_more(links, &system.links)),
            ("system.etc", has_more(etc, &system.etc)),
            ("kernel.shm", is_larger(shm, &other.kernel.shm)),
            ("temporary.tmp", is_larger(tmp, &temporary.tmp)),
            ("temporary.run", is_larger(run, &temporary.run)),
            ("temporary.parents", is_larger(parents, &temporary.parents)),
            ("home.size", is_larger(size, &other.home.size)),
            ("home.hooks", other.home.refuses_hooks() && !home.refuses_hooks()),
            ("tools.expose", has_more(expose, &other.tools.expose)),
            ("run.chats", chats.value > other.run.chats.value),
            ("run.data", data.value > other.run.data.value),
            ("workspace.access", access.value > workspace.access.value),
            ("workspace.show", has_more(show, &workspace.show)),
            ("workspace.protect", has_more(&workspace.protect, protect)),
            ("workspace.missing", missing.value < workspace.missing.value),
            ("workspace.unprotected", unprotected.value < workspace.unprotected.value),
            ("workspace.git", git.value > workspace.git.value),
            ("workspace.git_protect", has_more(&workspace.git_protect, git_protect)),
            ("environment.run", has_more(variables, &environment.run)),
            ("environment.pass", has_more(pass, &environment.pass)),
            ("environment.set", sets_more),
            ("seccomp.filters", has_more(&other.seccomp.filters, filters)),
            ("caches", caches.as_ref().is_some_and(|now| now.is_wider_than(other.caches.as_ref()))),
        ];
        let found = is_wider.into_iter().filter(|(_, is_wider)| *is_wider).map(|(key, _)| key);
        found.chain(network.wider_than(&other.network)).collect()
    }
}

/// Returns true if `one` has an entry that `other` lacks.
pub(super) fn has_more<T: PartialEq>(one: &[Sourced<T>], other: &[Sourced<T>]) -> bool {
    one.iter().any(|entry| !other.iter().any(|known| known.value == entry.value))
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
