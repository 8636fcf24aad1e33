//! The filters in `sandbox/seccomp`, compiled to the programs that bubblewrap loads.

mod filter_text;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use filter_text::{FilterText, SyscallTable};
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use serde::Deserialize;

/// A filter, by the name of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FilterName {
    Base,
    HiddenArguments,
    SocketFamilies,
    #[serde(rename = "nosuid")]
    NoSuid,
}

/// A program in the form that `--add-seccomp-fd` reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeccompProgram {
    pub name: &'static str,
    pub bytes: Vec<u8>,
}

/// An architecture for which `syscalls.toml` has numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Architecture {
    X86_64,
    Aarch64,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    #[error("there are no system call filters for `{0}`")]
    Architecture(&'static str),
    #[error("seccomp/{file}.toml: {message}")]
    Text { file: &'static str, message: String },
    #[error("seccomp/{file}.toml: `{syscall}` is not in syscalls.toml")]
    UnknownSyscall { file: &'static str, syscall: String },
    #[error("seccomp/{file}.toml: `{errno}` is not an error that a refused call can return")]
    UnknownErrno { file: &'static str, errno: String },
    #[error("seccomp/{file}.toml: `{syscall}` is refused both always and sometimes")]
    Contradiction { file: &'static str, syscall: String },
    #[error("seccomp/{file}.toml cannot be compiled")]
    Compile { file: &'static str, source: seccompiler::BackendError },
}

/// The first number of the x32 calls. The kernel reports them under the same architecture.
const X32_CALLS: u32 = 0x4000_0000;

impl FilterName {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] =
        [Self::Base, Self::HiddenArguments, Self::SocketFamilies, Self::NoSuid];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::HiddenArguments => "hidden-arguments",
            Self::SocketFamilies => "socket-families",
            Self::NoSuid => "nosuid",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Base => include_str!("../../../../sandbox/seccomp/base.toml"),
            Self::HiddenArguments => {
                include_str!("../../../../sandbox/seccomp/hidden-arguments.toml")
            }
            Self::SocketFamilies => {
                include_str!("../../../../sandbox/seccomp/socket-families.toml")
            }
            Self::NoSuid => include_str!("../../../../sandbox/seccomp/nosuid.toml"),
        }
    }
}

impl Architecture {
    pub(crate) fn of_this_machine() -> Result<Self, FilterError> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::X86_64),
            "aarch64" => Ok(Self::Aarch64),
            other => Err(FilterError::Architecture(other)),
        }
    }

    fn target(self) -> TargetArch {
        match self {
            Self::X86_64 => TargetArch::x86_64,
            Self::Aarch64 => TargetArch::aarch64,
        }
    }
}

/// Compiles filters to programs.
pub(crate) fn programs(
    filters: impl IntoIterator<Item = FilterName>,
    architecture: Architecture,
) -> Result<Vec<SeccompProgram>, FilterError> {
    let table = SyscallTable::read(include_str!("../../../../sandbox/seccomp/syscalls.toml"))?;
    filters
        .into_iter()
        .map(|filter| {
            let program = compile(filter, &table, architecture)?;
            Ok(SeccompProgram { name: filter.name(), bytes: bytes_of(&program) })
        })
        .collect()
}

fn compile(
    filter: FilterName,
    table: &SyscallTable,
    architecture: Architecture,
) -> Result<BpfProgram, FilterError> {
    let file = filter.name();
    let text = FilterText::read(file, filter.text())?;
    let errno = match text.errno.as_str() {
        "EPERM" => Errno::PERM,
        "ENOSYS" => Errno::NOSYS,
        "EAFNOSUPPORT" => Errno::AFNOSUPPORT,
        _ => return Err(FilterError::UnknownErrno { file, errno: text.errno }),
    };

    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for refusal in &text.refuse {
        let conditions = refusal.rules().map_err(|source| FilterError::Compile { file, source })?;
        for syscall in &refusal.syscalls {
            let numbers = table
                .numbers(syscall)
                .ok_or_else(|| FilterError::UnknownSyscall { file, syscall: syscall.clone() })?;
            // This architecture may lack the call.
            let Some(number) = numbers.on(architecture) else { continue };
            match rules.entry(i64::from(number)) {
                Entry::Vacant(entry) => {
                    entry.insert(conditions.clone());
                }
                // A rule without conditions means always. Mixed with conditions, it would be lost.
                Entry::Occupied(entry) if entry.get().is_empty() || conditions.is_empty() => {
                    return Err(FilterError::Contradiction { file, syscall: syscall.clone() });
                }
                Entry::Occupied(mut entry) => entry.get_mut().extend(conditions.iter().cloned()),
            }
        }
    }

    let compiled = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.raw_os_error().unsigned_abs()),
        architecture.target(),
    )
    .and_then(BpfProgram::try_from)
    .map_err(|source| FilterError::Compile { file, source })?;
    Ok(match (filter, architecture) {
        (FilterName::Base, Architecture::X86_64) => without_x32(compiled),
        _ => compiled,
    })
}

/// Refuses all x32 calls before the program runs. Otherwise a refused call would pass under its x32 number.
fn without_x32(program: BpfProgram) -> BpfProgram {
    const LOAD_SYSCALL_NUMBER: sock_filter = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    const SKIP_ONE_BELOW_X32: sock_filter = sock_filter { code: 0x35, jt: 0, jf: 1, k: X32_CALLS };
    let refuse = u32::from(SeccompAction::Errno(Errno::NOSYS.raw_os_error().unsigned_abs()));
    let refusal = sock_filter { code: 0x06, jt: 0, jf: 0, k: refuse };
    [LOAD_SYSCALL_NUMBER, SKIP_ONE_BELOW_X32, refusal].into_iter().chain(program).collect()
}

fn bytes_of(program: &[sock_filter]) -> Vec<u8> {
    program
        .iter()
        .flat_map(|instruction| {
            let [code_low, code_high] = instruction.code.to_ne_bytes();
            let [a, b, c, d] = instruction.k.to_ne_bytes();
            [code_low, code_high, instruction.jt, instruction.jf, a, b, c, d]
        })
        .collect()
}

fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u32,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, u64::from(value))
}

#[cfg(test)]
#[path = "seccomp_tests.rs"]
mod tests;
