//! The audit of a workspace after a run, one line per finding.

use admission::words::safe_text::on_one_line;
use admission::words::units;
use run_protocol::{Audit, Finding, FindingKind};

/// Empty if the audit found nothing.
pub(crate) fn lines(audit: &Audit) -> Vec<String> {
    let mut lines: Vec<String> = audit.findings.iter().map(line).collect();
    if audit.more > 0 {
        let more = units::counted(audit.more, "more thing", "more things");
        lines.push(format!("and {more} to look at"));
    }
    if let Some(why) = &audit.incomplete {
        lines.push(format!("audit incomplete: {}", on_one_line(why)));
    }
    lines
}

fn line(finding: &Finding) -> String {
    let what = match finding.what {
        FindingKind::SetId => "set-user-id or set-group-id file",
        FindingKind::Device => "new device",
        FindingKind::Fifo => "new FIFO",
        FindingKind::Socket => "new socket",
        FindingKind::GitLink => "link in .git, removed",
        FindingKind::GitSpecial => "special file in .git, removed",
        FindingKind::GitHardLink => "hard link in .git to a file outside, replaced with a copy",
        FindingKind::GitClosed => "directory in .git that could not be read, made readable",
        FindingKind::LinkOut => "link out of the workspace",
        FindingKind::Hook => "hook",
        FindingKind::GitConfig => "git configuration",
        FindingKind::RefDeleted | FindingKind::RefMoved => return ref_line(finding),
        FindingKind::Repository => "new repository",
        FindingKind::Ci => "CI file",
        FindingKind::Editor => "editor configuration",
        FindingKind::Environment => "shell or tool configuration",
        FindingKind::AgentConfig => "agent configuration",
        FindingKind::Executable => "new executable",
    };
    let path = finding.path.0.display().to_string();
    let mut line = format!("{what}: {}", on_one_line(&path));
    if let Some(target) = &finding.target {
        let target = target.0.display().to_string();
        line.push_str(&format!(" -> {}", on_one_line(&target)));
    }
    line
}

/// `deleted branch: old (was 1a2b3c4d5e6f)`.
fn ref_line(finding: &Finding) -> String {
    let name = finding.path.0.display().to_string();
    let (kind, name) = match name.strip_prefix("refs/heads/") {
        Some(branch) => ("branch", branch),
        None => ("ref", name.as_str()),
    };
    let verb = if finding.what == FindingKind::RefDeleted { "deleted" } else { "moved" };
    let was = finding.was.as_deref().unwrap_or("unknown");
    let is_commit = was.len() >= 40 && was.bytes().all(|byte| byte.is_ascii_hexdigit());
    let was = if is_commit { &was[..12] } else { was };
    format!("{verb} {kind}: {} (was {})", on_one_line(name), on_one_line(was))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_name_from_the_agent_cannot_write_on_the_terminal() {
        let finding = Finding {
            what: FindingKind::LinkOut,
            path: "a\u{1b}[2J\nb".into(),
            target: Some("/etc/\u{202e}x".into()),
            was: None,
        };
        let audit = Audit { findings: vec![finding], more: 3, ..Audit::default() };
        assert_eq!(
            lines(&audit),
            [
                "link out of the workspace: a␛[2J␊b -> /etc/<U+202E>x",
                "and 3 more things to look at"
            ]
        );
    }
}
