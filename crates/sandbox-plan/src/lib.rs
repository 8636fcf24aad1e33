//! What a sandboxed run may see and reach: a profile and a run's paths become a checked plan, and the plan becomes the
//! arguments and system call filters of bubblewrap.
//!
//! ```text
//!  profile.toml ──► Profile ─┐
//!                            ├──► plan() ──► SandboxPlan ──► bwrap_args, data files, seccomp programs
//!  SandboxRequest ───────────┘                    ├──► mount points to create, and to remove
//!  workspace ──► Workspace::inspect               ├──► verify, before the blocked sandbox is released
//!                                                 └──► explain, each part with its line of the profile
//! ```
//!
//! **Invariant:** nothing is started here, and nothing is changed but the mount points, when the caller says so.
//!
//! **Invariant:** no symlink of a workspace is ever followed, and none lies on the way to a mount.
//!
//! **Invariant:** a sandbox is never weaker than its profile says: what cannot be protected is refused, and what cannot be
//! shown safely is left out with a warning.
//!
//! **Invariant:** no secret is on a command line; arguments, files and filters go through descriptors.

mod bwrap;
mod explain;
mod git_config;
mod git_layout;
mod host_path;
mod mount_points;
mod nested_repositories;
mod origin;
mod plan;
mod planner;
mod profile;
mod request;
mod seccomp;
mod step;
mod verify;
mod workspace;

pub use bwrap::{
    BwrapFileError, BwrapProblem, BwrapVersion, KnownHole, bwrap_trial, check_bwrap_file,
    missing_bwrap_options,
};
pub use explain::{Explained, PlanPart};
pub use host_path::{FileIdentity, FileKind};
pub use mount_points::{DotCursorMounts, MountPointError, MountPoints, Removal};
pub use origin::Origin;
pub use plan::{DataFile, PlanError, PlanWarning, PlannedNetwork, SandboxPlan};
pub use planner::plan;
pub use profile::{
    Access, Confinement, NetworkLimits, Profile, ProfileError, ProfileLimit, ProfileLimits,
    builtin_profiles,
};
pub use request::{
    ChatsBind, EnvVariable, Nothing, OWN_COMMON_DIR, PrivateFile, RunDirectories, SandboxRequest,
    SandboxUser, Secrecy, VariableSource,
};
pub use seccomp::{FilterError, SeccompProgram};
pub use step::PlanFds;
pub use verify::{Mismatch, SandboxRoot};
pub use workspace::{Surroundings, Workspace, WorkspaceError};
