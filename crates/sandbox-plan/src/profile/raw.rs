//! The text of a profile as it was written, with the place of every value.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use run_protocol::NetworkMode;
use serde::Deserialize;
use toml::Spanned;

use super::values::{
    Access, Confinement, DevMount, MissingNames, OnlyReadOnly, ProcMount, RootCaller, Unprotected,
};

pub(super) type Scalar<T> = Option<Spanned<T>>;
pub(super) type List = Option<Vec<Spanned<String>>>;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawProfile {
    pub(super) extends: Scalar<String>,
    pub(super) description: Scalar<String>,
    pub(super) confinement: Scalar<Confinement>,
    pub(super) caller: RawCaller,
    pub(super) namespaces: RawNamespaces,
    pub(super) network: RawNetwork,
    pub(super) system: RawSystem,
    pub(super) kernel: RawKernel,
    pub(super) temporary: RawTemporary,
    pub(super) home: RawHome,
    pub(super) tools: RawTools,
    pub(super) run: RawRun,
    pub(super) workspace: RawWorkspace,
    pub(super) environment: RawEnvironment,
    pub(super) seccomp: RawSeccomp,
    pub(super) limits: RawLimits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawCaller {
    pub(super) root: Scalar<RootCaller>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawNamespaces {
    pub(super) own: List,
    pub(super) hostname: Scalar<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawNetwork {
    pub(super) mode: Scalar<NetworkMode>,
    pub(super) allow: List,
    pub(super) connections: Scalar<NonZeroU32>,
    pub(super) transfer: Scalar<String>,
    pub(super) handshake: Scalar<String>,
    pub(super) idle: Scalar<String>,
    pub(super) files: List,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSystem {
    pub(super) read_only: List,
    pub(super) links: List,
    pub(super) etc: List,
    pub(super) generated: List,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawKernel {
    pub(super) proc: Scalar<ProcMount>,
    pub(super) sysctl: Scalar<OnlyReadOnly>,
    pub(super) dev: Scalar<DevMount>,
    pub(super) shm: Scalar<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawTemporary {
    pub(super) tmp: Scalar<String>,
    pub(super) run: Scalar<String>,
    pub(super) parents: Scalar<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawHome {
    pub(super) size: Scalar<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawTools {
    pub(super) expose: List,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawRun {
    pub(super) program: Scalar<OnlyReadOnly>,
    pub(super) sockets: Scalar<OnlyReadOnly>,
    pub(super) dot_cursor: Scalar<OnlyReadOnly>,
    pub(super) chats: Scalar<Access>,
    pub(super) data: Scalar<Access>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawWorkspace {
    pub(super) access: Scalar<Access>,
    pub(super) show: List,
    pub(super) protect: List,
    pub(super) missing: Scalar<MissingNames>,
    pub(super) unprotected: Scalar<Unprotected>,
    pub(super) git: Scalar<Access>,
    pub(super) git_protect: List,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawEnvironment {
    pub(super) run: List,
    pub(super) pass: List,
    pub(super) set: BTreeMap<String, Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSeccomp {
    pub(super) filters: List,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLimits {
    pub(super) memory: Scalar<String>,
    pub(super) processes: Scalar<u64>,
    pub(super) cpu_weight: Scalar<u64>,
    pub(super) cpus: Scalar<String>,
    pub(super) file_size: Scalar<String>,
    pub(super) open_files: Scalar<u64>,
    pub(super) disk: Scalar<String>,
    pub(super) required: Scalar<bool>,
}
