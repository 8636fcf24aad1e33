use pretty_assertions::assert_eq;

use super::*;

const ARCHITECTURES: [Architecture; 2] = [Architecture::X86_64, Architecture::Aarch64];

/// A seccomp program's answer.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Allow,
    Errno(u32),
    Kill,
}

const EPERM: Verdict = Verdict::Errno(1);
const ENOSYS: Verdict = Verdict::Errno(38);
const EAFNOSUPPORT: Verdict = Verdict::Errno(97);

fn table() -> SyscallTable {
    SyscallTable::read(include_str!("../../../../sandbox/seccomp/syscalls.toml")).unwrap()
}

fn number(name: &str, architecture: Architecture) -> u32 {
    table().numbers(name).unwrap().on(architecture).unwrap()
}

/// Runs a program like the kernel, for the few instructions that seccomp programs use.
fn run(
    program: &SeccompProgram,
    audit_architecture: u32,
    number: u32,
    arguments: [u64; 6],
) -> Verdict {
    let mut data = Vec::new();
    data.extend(number.to_le_bytes());
    data.extend(audit_architecture.to_le_bytes());
    data.extend(0u64.to_le_bytes());
    data.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));

    let instructions: Vec<[u8; 8]> =
        program.bytes.chunks(8).map(|chunk| chunk.try_into().unwrap()).collect();
    let (mut at, mut accumulator) = (0, 0u32);
    loop {
        let [c0, c1, jump_true, jump_false, k @ ..] = instructions[at];
        let (code, k) = (u16::from_le_bytes([c0, c1]), u32::from_le_bytes(k));
        let branch = |taken: bool| usize::from(if taken { jump_true } else { jump_false });
        at += 1;
        match code {
            0x20 => {
                let word = &data[k as usize..k as usize + 4];
                accumulator = u32::from_le_bytes(word.try_into().unwrap());
            }
            0x54 => accumulator &= k,
            0x05 => at += k as usize,
            0x15 => at += branch(accumulator == k),
            0x25 => at += branch(accumulator > k),
            0x35 => at += branch(accumulator >= k),
            0x06 => {
                return match k {
                    0x7fff_0000 => Verdict::Allow,
                    0x8000_0000 => Verdict::Kill,
                    other => Verdict::Errno(other & 0xffff),
                };
            }
            other => panic!("an instruction that no filter has: {other:#x}"),
        }
    }
}

/// Runs all filters. The strictest answer wins, as in the kernel.
fn judge(architecture: Architecture, number: u32, arguments: [u64; 6]) -> Verdict {
    let audit = match architecture {
        Architecture::X86_64 => 0xc000_003e,
        Architecture::Aarch64 => 0xc000_00b7,
    };
    let programs = programs(FilterName::ALL, architecture).unwrap();
    let verdicts = programs.iter().map(|program| run(program, audit, number, arguments));
    verdicts.into_iter().find(|verdict| *verdict != Verdict::Allow).unwrap_or(Verdict::Allow)
}

fn call(architecture: Architecture, name: &str, arguments: &[u64]) -> Verdict {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    judge(architecture, number(name, architecture), all)
}

#[test]
fn every_filter_compiles_to_whole_instructions_for_both_architectures() {
    for architecture in ARCHITECTURES {
        let programs = programs(FilterName::ALL, architecture).unwrap();
        let names: Vec<_> = programs.iter().map(|program| program.name).collect();
        assert_eq!(names, ["base", "hidden-arguments", "socket-families", "nosuid"]);
        for program in programs {
            assert!(!program.bytes.is_empty() && program.bytes.len() % 8 == 0, "{}", program.name);
            assert!(program.bytes.len() / 8 < 4096, "{}", program.name);
        }
    }
}

fn by_name(name: &str) -> Option<FilterName> {
    FilterName::deserialize(toml::Value::from(name)).ok()
}

#[test]
fn filter_names_are_read_back() {
    for filter in FilterName::ALL {
        assert_eq!(by_name(filter.name()), Some(filter));
    }
    assert_eq!(by_name("Base"), None);
}

#[test]
fn the_numbers_agree_with_an_independent_table() {
    // That table ends before this call.
    let newer = ["open_tree_attr"];
    for architecture in ARCHITECTURES {
        for name in table().names().filter(|name| !newer.contains(name)) {
            let json = format!(
                r#"{{"t":{{"mismatch_action":"allow","match_action":"trap","filter":[{{"syscall":"{name}"}}]}}}}"#
            );
            let compiled = seccompiler::compile_from_json(json.as_bytes(), architecture.target());
            // After checking the architecture, the program loads and compares the number.
            let theirs = compiled.ok().map(|programs| programs["t"][4].k);
            let ours = table().numbers(name).unwrap().on(architecture);
            assert_eq!(ours, theirs, "{name} on {architecture:?}");
        }
    }
}

#[test]
fn every_call_in_the_table_is_named_by_a_filter() {
    let texts =
        FilterName::ALL.map(|filter| FilterText::read(filter.name(), filter.text()).unwrap());
    for name in table().names() {
        let mut refusals = texts.iter().flat_map(|text| &text.refuse);
        assert!(refusals.any(|refusal| refusal.syscalls.iter().any(|call| call == name)), "{name}");
    }
}

#[test]
fn dangerous_calls_are_refused_whatever_their_arguments() {
    for architecture in ARCHITECTURES {
        for name in
            ["ptrace", "io_uring_setup", "keyctl", "mount", "unshare", "bpf", "open_tree_attr"]
        {
            for argument in [0, 1, u64::MAX] {
                assert_eq!(call(architecture, name, &[argument; 6]), EPERM, "{name}");
            }
        }
        for name in ["clone3", "openat2"] {
            assert_eq!(call(architecture, name, &[]), ENOSYS, "{name}");
        }
    }
}

#[test]
fn ordinary_calls_pass() {
    // read, write, close, execve, exit_group, futex: no filter has a call that every program needs.
    let daily = [
        (Architecture::X86_64, [0, 1, 3, 59, 231, 202]),
        (Architecture::Aarch64, [63, 64, 57, 221, 94, 98]),
    ];
    for (architecture, numbers) in daily {
        for number in numbers {
            assert_eq!(judge(architecture, number, [u64::MAX; 6]), Verdict::Allow, "{number}");
        }
        assert_eq!(call(architecture, "clone", &[0x003d_0f00]), Verdict::Allow);
        assert_eq!(call(architecture, "ioctl", &[0, 0x5401]), Verdict::Allow);
        assert_eq!(call(architecture, "personality", &[0xffff_ffff]), Verdict::Allow);
        assert_eq!(call(architecture, "personality", &[0]), Verdict::Allow);
    }
}

#[test]
fn a_clone_into_any_new_namespace_is_refused() {
    for architecture in ARCHITECTURES {
        for bit in [17, 25, 26, 27, 28, 29, 30] {
            assert_eq!(call(architecture, "clone", &[(1 << bit) | 17]), EPERM, "bit {bit}");
        }
    }
}

#[test]
fn high_bits_of_an_argument_do_not_hide_it() {
    let high = 0xdead_beef << 32;
    for architecture in ARCHITECTURES {
        for command in [0x5412, 0x541c] {
            assert_eq!(call(architecture, "ioctl", &[0, command]), EPERM);
            assert_eq!(call(architecture, "ioctl", &[0, high | command]), EPERM);
        }
        assert_eq!(call(architecture, "personality", &[0x0040_0000]), EPERM);
        assert_eq!(call(architecture, "socket", &[high | 40]), EAFNOSUPPORT);
        assert_eq!(call(architecture, "fchmod", &[3, high | 0o4755]), EPERM);
    }
}

#[test]
fn only_four_socket_families_exist() {
    for architecture in ARCHITECTURES {
        for family in 0..50 {
            let expected = match family {
                1 | 2 | 10 | 16 => Verdict::Allow,
                _ => EAFNOSUPPORT,
            };
            assert_eq!(call(architecture, "socket", &[family, 1, 0]), expected, "{family}");
        }
    }
}

#[test]
fn every_way_to_make_a_set_user_id_file_is_refused() {
    use Architecture::{Aarch64, X86_64};
    for bits in [0o4755, 0o2755, 0o6777] {
        for architecture in ARCHITECTURES {
            assert_eq!(call(architecture, "fchmod", &[3, bits]), EPERM);
            assert_eq!(call(architecture, "fchmodat", &[3, 0, bits]), EPERM);
            assert_eq!(call(architecture, "fchmodat2", &[3, 0, bits]), EPERM);
            assert_eq!(call(architecture, "openat", &[3, 0, 0x41, bits]), EPERM);
            assert_eq!(call(architecture, "openat", &[3, 0, 0x41_0002, bits]), EPERM);
            assert_eq!(call(architecture, "mknodat", &[3, 0, 0o100_000 | bits, 0]), EPERM);
            // Without O_CREAT, the mode is a random register value.
            assert_eq!(call(architecture, "openat", &[3, 0, 0, bits]), Verdict::Allow);
        }
        assert_eq!(call(X86_64, "chmod", &[0, bits]), EPERM);
        assert_eq!(call(X86_64, "open", &[0, 0x41, bits]), EPERM);
        assert_eq!(call(X86_64, "open", &[0, 0, bits]), Verdict::Allow);
        assert_eq!(call(X86_64, "creat", &[0, bits]), EPERM);
        assert_eq!(call(X86_64, "mknod", &[0, bits]), EPERM);
    }
    assert_eq!(call(Aarch64, "openat", &[3, 0, 0x41, 0o1777]), Verdict::Allow);
}

#[test]
fn calls_with_the_numbers_of_another_abi_do_not_pass() {
    let x32_ptrace = 0x4000_0000 + 521;
    assert_eq!(judge(Architecture::X86_64, x32_ptrace, [0; 6]), ENOSYS);
    let base = &programs([FilterName::Base], Architecture::X86_64).unwrap()[0];
    // 26 is ptrace on 32-bit x86, whose own architecture is 0x40000003.
    assert_eq!(run(base, 0x4000_0003, 26, [0; 6]), Verdict::Kill);
}
