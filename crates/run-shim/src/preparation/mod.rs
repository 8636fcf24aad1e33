//! Turns the spec of a run into a planned sandbox with all its files.
//!
//! ```text
//!   spec ─► outline: profile, servers, arguments ─► plan of the sandbox          creates nothing
//!        ─► prepared: files, login, session's bucket, mount points, plan         removes them when the run is over
//!        ─► leftovers: removes them after a run whose shim died
//! ```

mod agent_invocation;
mod agents_directory;
pub(crate) mod caches;
pub(crate) mod error;
pub(crate) mod leftovers;
mod outline;
mod placeholders;
mod prepared;
pub(crate) mod private_roots;

use run_journal::StateRoot;
use run_protocol::RunSpec;
use sandbox_plan::{PlanError, Profile, RunDirectories, SandboxPlan, Surroundings, Workspace};

use error::PrepareError;
use outline::Outline;
pub(crate) use prepared::Prepared;

/// Checks the profile, the flags, the workspace and the exposed paths before anything is created. This finds the usual
/// mistakes and attacks. The rest of the plan is left to the shim, because making it twice would double the cost of a
/// launch. A run that the shim refuses leaves nothing behind either.
pub fn check_run(state: &StateRoot, spec: &RunSpec, profile: Profile) -> Result<(), PrepareError> {
    let outline = Outline::with_profile(state, spec, profile)?;
    let uid = nix::unistd::geteuid().as_raw();
    if uid == 0 && outline.profile.refuses_root() {
        return Err(PlanError::RootCaller { profile: spec.profile.clone() }.into());
    }
    let surroundings = Surroundings { uid, home: &spec.home.0, ours: &outline.ours };
    let workspace =
        Workspace::inspect(outline.workspace.as_path(), surroundings).map_err(PlanError::from)?;
    let is_kept = |path| spec.agent.kept.is_some() && spec.agent.expose.contains(path);
    for shown in spec.agent.expose.iter().chain(&spec.expose) {
        if shown.0.starts_with(workspace.path()) {
            return Err(PlanError::ExposedInWorkspace(shown.0.clone()).into());
        }
        if !is_kept(shown) && !shown.0.exists() {
            return Err(PlanError::ExposedMissing(shown.0.clone()).into());
        }
    }
    Ok(())
}

/// Plans the sandbox of a run for an explanation. Creates nothing.
pub fn plan_run(state: &StateRoot, spec: &RunSpec) -> Result<SandboxPlan, PrepareError> {
    let outline = Outline::new(state, spec)?;
    let expected = outline.expected_roots();
    outline.plan(spec, expected, &outline.bucket(), &[], RunDirectories::MayBeMissing)
}
