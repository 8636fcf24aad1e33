use std::time::Duration;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use run_protocol::NetworkMode;

use super::*;
use crate::mount_points::{DotCursorMounts, MountPoints};
use crate::origin::Origin;
use crate::plan::PlannedNetwork;
use crate::profile::NetworkLimits;
use crate::step::PlannedStep;

const WORKSPACE: FileIdentity = FileIdentity { device: 1, inode: 10 };
const DOT_CURSOR: FileIdentity = FileIdentity { device: 1, inode: 20 };

fn bind(dest: &str, access: Access, identity: Option<FileIdentity>) -> Step {
    Step::Bind { source: dest.into(), dest: dest.into(), access, identity }
}

fn plan_of(steps: Vec<Step>) -> SandboxPlan {
    let planned = |step| PlannedStep { step, origin: Origin::Always };
    SandboxPlan {
        steps: steps.into_iter().map(planned).collect(),
        data: Vec::new(),
        programs: Vec::new(),
        program: Vec::new(),
        workspace: WORKSPACE,
        git_configs: Vec::new(),
        mount_points: MountPoints::default(),
        dot_cursor: DotCursorMounts::default(),
        warnings: Vec::new(),
        network: PlannedNetwork {
            mode: NetworkMode::None,
            origin: Origin::Always,
            allow: Vec::new(),
            tun: None,
            limits: NetworkLimits {
                connections: 1,
                transfer: 1,
                handshake: Duration::ZERO,
                idle: Duration::ZERO,
            },
        },
    }
}

fn plan() -> SandboxPlan {
    plan_of(vec![
        Step::Proc,
        Step::HideFirstProcess,
        Step::Tmpfs { dest: "/tmp".into(), size: 1, mode: 0o1777 },
        bind("/w s", Access::ReadWrite, Some(WORKSPACE)),
        bind("/w s/.cursor", Access::ReadOnly, Some(DOT_CURSOR)),
        Step::RemountReadOnly("/".into()),
        Step::ChangeDirectory("/w s".into()),
    ])
}

const MOUNTS: &str = "\
1 0 0:1 / / ro,nosuid - tmpfs tmpfs rw
2 1 0:2 / /proc rw,nosuid - proc proc rw
6 2 0:4 / /proc/1 ro,nosuid - tmpfs tmpfs rw
3 1 0:3 / /tmp rw,nosuid - tmpfs tmpfs rw,size=1k
4 1 8:1 /home/w /w\\040s rw,nosuid shared:1 master:2 - ext4 /dev/vda rw
5 4 8:1 /run/dot /w\\040s/.cursor ro,nosuid - ext4 /dev/vda rw
";

fn identity(path: &Path) -> io::Result<FileIdentity> {
    match path.to_str() {
        Some("/w s") => Ok(WORKSPACE),
        Some("/w s/.cursor") => Ok(DOT_CURSOR),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn mismatch(mountinfo: &str) -> String {
    plan().verify(mountinfo.as_bytes(), &identity).unwrap_err().to_string()
}

#[test]
fn a_sandbox_as_planned_passes() {
    assert_eq!(plan().verify(MOUNTS.as_bytes(), &identity).unwrap(), 6);
}

#[test]
fn each_difference_is_named() {
    let without = |point: &str| {
        let kept = MOUNTS.lines().filter(|line| line.split(' ').nth(4) != Some(point));
        kept.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(mismatch(""), "nothing is mounted at `/proc`");
    assert_eq!(mismatch(&without("/w\\040s/.cursor")), "nothing is mounted at `/w s/.cursor`");
    assert_eq!(mismatch(&without("/proc/1")), "nothing is mounted at `/proc/1`");
    let writable = MOUNTS.replace("/proc/1 ro", "/proc/1 rw");
    assert_eq!(mismatch(&writable), "`/proc/1` is writable, but must be read-only");
    let writable = MOUNTS.replace(".cursor ro", ".cursor rw");
    assert_eq!(mismatch(&writable), "`/w s/.cursor` is writable, but must be read-only");
    assert_eq!(
        mismatch(&MOUNTS.replace("/ ro,", "/ rw,")),
        "`/` is writable, but must be read-only"
    );
    assert_eq!(
        mismatch(&MOUNTS.replace("tmpfs tmpfs rw,size", "ext4 /dev/vda rw,size")),
        "`/tmp` is mounted as ext4 instead of tmpfs"
    );
}

#[test]
fn another_file_in_place_of_ours_is_noticed() {
    let other = |path: &Path| match path.to_str() {
        Some("/w s/.cursor") => Ok(FileIdentity { device: 1, inode: 21 }),
        _ => identity(path),
    };
    let mismatch = plan().verify(MOUNTS.as_bytes(), &other).unwrap_err();
    assert_eq!(mismatch.to_string(), "`/w s/.cursor` is file 1:21 instead of 1:20");
    let blind = |_: &Path| Err(io::ErrorKind::NotFound.into());
    let mismatch = plan().verify(MOUNTS.as_bytes(), &blind).unwrap_err();
    assert_eq!(mismatch.to_string(), "cannot examine `/w s` from outside");
}

#[test]
fn a_later_mount_at_the_same_place_counts() {
    let covered = format!("{MOUNTS}6 5 0:9 / /w\\040s/.cursor rw - tmpfs tmpfs rw\n");
    assert_eq!(mismatch(&covered), "`/w s/.cursor` is writable, but must be read-only");
}

#[test]
fn mounts_below_a_read_only_mount_must_be_read_only_too() {
    let in_workspace = format!("{MOUNTS}6 4 0:9 / /w\\040s/data rw - tmpfs tmpfs rw\n");
    assert_eq!(plan().verify(in_workspace.as_bytes(), &identity).unwrap(), 6);
    let in_dot_cursor = format!("{MOUNTS}6 5 0:9 / /w\\040s/.cursor/rules rw - tmpfs tmpfs rw\n");
    assert_eq!(mismatch(&in_dot_cursor), "`/w s/.cursor/rules` is writable, but must be read-only");
}

#[test]
fn a_mount_that_nobody_can_reach_harms_nobody() {
    let hidden = format!("{MOUNTS}6 5 0:9 / /w\\040s/.cursor/x rw - fuse other rw\n");
    let identity = |path: &Path| match path.ends_with("x") {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => identity(path),
    };
    assert_eq!(plan().verify(hidden.as_bytes(), &identity).unwrap(), 6);
}

#[test]
fn a_mount_that_the_planner_did_not_inspect_cannot_be_verified() {
    let plan = plan_of(vec![bind("/w s", Access::ReadWrite, None)]);
    let mismatch = plan.verify(MOUNTS.as_bytes(), &identity).unwrap_err();
    assert!(matches!(mismatch, Mismatch::Unplanned(_)));
}

#[test]
fn a_mount_that_disappears_or_becomes_writable_is_named() {
    let plan = plan();
    assert_eq!(plan.lost(MOUNTS.as_bytes()), Vec::<&Path>::new());
    let without = |part: &str| {
        let lines = MOUNTS.lines().filter(|line| !line.contains(part));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let cursor = without("/.cursor ");
    assert_eq!(plan.lost(cursor.as_bytes()), [Path::new("/w s/.cursor")]);
    assert_eq!(plan.lost(without(" /tmp ").as_bytes()), [Path::new("/tmp")]);
    // This mount ends with the process that it hides, when the sandbox ends.
    assert_eq!(plan.lost(without(" /proc/1 ").as_bytes()), Vec::<&Path>::new());
    let writable = MOUNTS.replace("/ / ro,", "/ / rw,");
    assert_ne!(writable, MOUNTS);
    assert_eq!(plan.lost(writable.as_bytes()), [Path::new("/")]);
    // Other mounts on the host do not matter.
    let more = format!("{MOUNTS}99 1 0:9 / /w\\040s/media rw - ext4 /dev/sda rw\n");
    assert_eq!(plan.lost(more.as_bytes()), Vec::<&Path>::new());
}

proptest! {
    #[test]
    fn any_mount_point_is_read_back(name in proptest::collection::vec(1u8.., 0..20)) {
        let escaped: Vec<u8> = name
            .iter()
            .flat_map(|byte| match byte {
                b' ' | b'\t' | b'\n' | b'\\' | b'#' => format!("\\{byte:03o}").into_bytes(),
                byte => vec![*byte],
            })
            .collect();
        let line = [b"5 4 8:1 /x /".as_slice(), &escaped, b" ro - ext4 x rw"].concat();
        let point = PathBuf::from(OsString::from_vec([b"/".as_slice(), &name].concat()));
        let expected = Mount { point, access: Access::ReadOnly, kind: "ext4".to_owned() };
        prop_assert_eq!(mount(&line), Some(expected));
    }

    #[test]
    fn arbitrary_lines_never_panic_and_never_verify(line in proptest::collection::vec(any::<u8>(), 0..80)) {
        let lines: Vec<&[u8]> = line.split(|byte| *byte == b'\n').collect();
        lines.into_iter().for_each(|line| drop(mount(line)));
        prop_assert!(plan().verify(&line, &identity).is_err());
    }
}
