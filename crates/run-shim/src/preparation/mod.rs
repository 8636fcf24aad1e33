//! From the spec of a run to a sandbox that is planned, with everything in place that it is made of.
//!
//! ```text
//!   spec ─► outline: profile, servers, arguments ─► plan of the sandbox          nothing is created
//!        ─► prepared: files, login, session's bucket, mount points, plan         taken back when the run is over
//!        ─► leftovers: the same for a run whose shim died
//! ```

mod agent_invocation;
mod agents_directory;
pub(crate) mod error;
pub(crate) mod leftovers;
mod outline;
mod prepared;
pub(crate) mod private_roots;

use run_journal::StateRoot;
use run_protocol::RunSpec;
use sandbox_plan::{PlanError, RunDirectories, SandboxPlan, Surroundings, Workspace};

use error::PrepareError;
use outline::Outline;
pub(crate) use prepared::Prepared;

/// Checks, before anything is created, what a stranger or a typing error could have made wrong: the profile, the flags,
/// the workspace and what is in it, what is to be shown. The shim makes the whole plan, and a run that it refuses for
/// another reason leaves nothing behind either; making the plan twice would double what a launch costs us.
pub fn check_run(state: &StateRoot, spec: &RunSpec) -> Result<(), PrepareError> {
    let outline = Outline::new(state, spec)?;
    let uid = nix::unistd::geteuid().as_raw();
    if uid == 0 && outline.profile.refuses_root() {
        return Err(PlanError::RootCaller { profile: spec.profile.clone() }.into());
    }
    let surroundings = Surroundings { uid, home: &spec.home.0, ours: &outline.ours };
    let workspace =
        Workspace::inspect(outline.workspace.as_path(), surroundings).map_err(PlanError::from)?;
    for shown in spec.agent.expose.iter().chain(&spec.expose) {
        if shown.0.starts_with(workspace.path()) {
            return Err(PlanError::ExposedInWorkspace(shown.0.clone()).into());
        }
        if !shown.0.exists() {
            return Err(PlanError::ExposedMissing(shown.0.clone()).into());
        }
    }
    Ok(())
}

/// Plans the sandbox of a run without creating anything, to be explained.
pub fn plan_run(state: &StateRoot, spec: &RunSpec) -> Result<SandboxPlan, PrepareError> {
    let outline = Outline::new(state, spec)?;
    let expected = outline.expected_roots();
    outline.plan(spec, expected, &[], RunDirectories::MayBeMissing)
}
