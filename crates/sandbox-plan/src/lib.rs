//! Plans the sandbox of a run. A profile and the run's paths become a checked plan. The plan becomes bubblewrap's arguments
//! and system call filters.
//!
//! ```text
//!  profile.toml ──► Profile ─┐
//!                            ├──► plan() ──► SandboxPlan ──► bwrap_args, data files, seccomp programs
//!  SandboxRequest ───────────┘                    ├──► mount points to create, and to remove
//!  workspace ──► Workspace::inspect               ├──► verify, before the blocked sandbox is released
//!                                                 └──► explain, each part with its profile line
//! ```
//!
//! **Invariant:** this crate starts no process. It changes only mount points, and only when the caller asks for that.
//!
//! **Invariant:** it follows no symlink in a workspace, and no mount path contains a symlink.
//!
//! **Invariant:** a sandbox is never weaker than its profile. The plan refuses a workspace that it cannot protect, and
//! warns about files that it leaves out because it cannot show them safely.
//!
//! **Invariant:** no secret is on a command line. Arguments, files and filters go through descriptors.

mod bwrap;
mod explain;
mod host_path;
mod mount_points;
mod origin;
mod plan;
mod planner;
mod profile;
mod request;
mod seccomp;
mod step;
mod tool_caches;
mod verify;
mod workspace;

pub use bwrap::{
    BwrapFileError, BwrapProblem, BwrapVersion, KnownHole, OLD_ROOT, bwrap_symlink_trial,
    bwrap_trial, check_bwrap_file, missing_bwrap_options,
};
pub use explain::{Explained, PlanPart};
pub use host_path::{FileIdentity, FileKind};
pub use mount_points::{DotCursorMounts, MountPointError, MountPoints, Removal};
pub use origin::{Origin, Sourced};
pub use plan::{DataFile, PlanError, PlanWarning, PlannedNetwork, SandboxPlan};
pub use planner::{CERTIFICATE_VARIABLES, CertificatesError, plan};
pub use profile::{
    Access, Confinement, Links, MemoryRule, NetworkLimits, Profile, ProfileError, ProfileLimits,
    builtin_profiles,
};
pub use request::{
    BucketView, ChatsBind, EnvVariable, OWN_COMMON_DIR, Placeholders, PrivateFile, RunDirectories,
    SHADOW_COMMON_DIR, SandboxRequest, SandboxUser, Secrecy, VariableSource,
};
pub use seccomp::{FilterError, SeccompProgram};
pub use step::PlanFds;
pub use tool_caches::{PrivatePart, SEEDS_INSIDE, Seed, ToolCache};
pub use verify::{Mismatch, SandboxRoot};
pub use workspace::{Surroundings, Workspace, WorkspaceError};
