//! Turns lines and axes into the runs of a batch, each with its options.

use std::collections::BTreeMap;

use run_protocol::{Mode, RunRequest};

use super::matrix::{self, Axis};
use super::prompt_lines::{BadLines, Line, MOST_RUNS};
use admission::sandbox::profiles;

/// The label that holds the line number of the run's prompt in the file.
pub(crate) const LINE_LABEL: &str = "batch/line";

/// A run to start.
#[derive(Debug)]
pub(crate) struct Item {
    /// The line in the file; `None` if the prompt does not come from a file.
    pub(crate) line: Option<usize>,
    pub(crate) prompt: Vec<u8>,
    /// The line's options on top of the command line's. The workspace may be relative to the working directory.
    pub(crate) request: RunRequest,
}

/// Why the input cannot become a batch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ItemsError {
    #[error(transparent)]
    Lines(#[from] BadLines),
    #[error(transparent)]
    Matrix(#[from] matrix::MatrixError),
    #[error("{0} runs are too many; a batch has at most {MOST_RUNS}")]
    TooMany(usize),
    #[error("--matrix: {0}")]
    Value(String),
    #[error("`--name {0}` is too long to append a number to")]
    Name(String),
}

/// Every line in every combination. `has_lines`: the lines come from a file, so errors and labels name their numbers.
pub(crate) fn items(
    lines: &[Line],
    axes: &[Axis],
    base: &RunRequest,
    has_lines: bool,
) -> Result<Vec<Item>, ItemsError> {
    let combinations = matrix::combinations(axes)?;
    let n_items = lines.len().saturating_mul(combinations.len());
    if n_items > MOST_RUNS {
        return Err(ItemsError::TooMany(n_items));
    }
    let mut items = Vec::with_capacity(n_items);
    let mut bad = BadLines::default();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines {
        for (index, combination) in combinations.iter().enumerate() {
            let varied = matrix::vary(line.number, &line.request, combination)?;
            let number = (combinations.len() > 1).then_some(index + 1);
            let mut request = match on_top_of(base, varied, number) {
                Ok(request) => request,
                Err(problem) if has_lines => {
                    bad.0.push((line.number, problem));
                    continue;
                }
                Err(problem) => return Err(ItemsError::Value(problem)),
            };
            if let Some(name) = &request.name
                && let Some(earlier) = names.insert(name.to_string(), line.number)
            {
                bad.0.push((line.number, format!("line {earlier} already has the name `{name}`")));
            }
            let prompt = request.prompt.take().unwrap_or_default().into_bytes();
            items.push(Item { line: has_lines.then_some(line.number), prompt, request });
        }
    }
    bad.0.dedup();
    if !bad.0.is_empty() {
        return Err(bad.into());
    }
    finish(items, base)
}

/// Numbers the runs that have no name, and labels each with its line.
fn finish(mut items: Vec<Item>, base: &RunRequest) -> Result<Vec<Item>, ItemsError> {
    for (index, Item { line, request, .. }) in items.iter_mut().enumerate() {
        if let (None, Some(name)) = (&request.name, &base.name) {
            let numbered = format!("{name}-{}", index + 1).parse();
            request.name = Some(numbered.map_err(|_| ItemsError::Name(name.to_string()))?);
        }
        if let Some(line) = line
            && let Ok(label) = format!("{LINE_LABEL}={line}").parse()
        {
            request.labels.push(label);
        }
    }
    Ok(items)
}

/// A line's options on top of the command line's. `number` is the number of the combination, if there are several.
fn on_top_of(
    base: &RunRequest,
    line: RunRequest,
    number: Option<usize>,
) -> Result<RunRequest, String> {
    if line.profile.as_deref() == Some(profiles::OFF) {
        return Err(
            "only the flag `--sandbox off` turns off the sandbox, and it does so for all runs"
                .to_owned(),
        );
    }
    // All runs of a batch share the group, the account and `--in-place`, and begin new sessions. A program or an agent
    // may have written the prompt file, so it must not name a program to start, and must not give the runs more access
    // to this machine or the network than the flags do.
    let for_all = [
        ("session", line.session.is_some()),
        ("worktree", line.worktree),
        ("account", line.account.is_some()),
        ("group", line.group.is_some()),
        ("group_budget", line.group_budget.is_some()),
        ("force", line.force),
        ("widen", !line.widen.is_empty()),
        ("agent", line.agent.is_some()),
        ("agent_flags", !line.agent_flags.is_empty()),
        ("secret", !line.secret.is_empty()),
        ("expose", !line.expose.is_empty()),
        ("network", line.network.is_some()),
        ("allow_host", !line.allow_host.is_empty()),
        ("registries", line.registries.is_some()),
        ("user_mcp", line.user_mcp),
        ("mcp", !line.mcp.is_empty()),
        ("mcp_from_repo", !line.mcp_from_repo.is_empty()),
        ("mode", line.mode == Some(Mode::Agent) && base.mode.is_some()),
    ];
    if let Some((name, _)) = for_all.into_iter().find(|(_, is_set)| *is_set) {
        return Err(format!("`{name}` cannot be set in a line of a batch"));
    }
    let base = RunRequest { name: None, ..base.clone() };
    let mut request = RunRequest::combine([base, line]);
    if let (Some(name), Some(number)) = (&request.name, number) {
        let numbered = format!("{name}-{number}").parse();
        request.name = Some(numbered.map_err(|error| format!("`name`: {error}"))?);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use run_protocol::{CountLimit, RunName};

    use super::*;
    use crate::batch::prompt_lines::parse;

    fn made(text: &str, axes: &[&str], base: &RunRequest) -> Result<Vec<Item>, ItemsError> {
        let axes: Vec<Axis> = axes.iter().map(|axis| axis.parse().unwrap()).collect();
        items(&parse(text.as_bytes()).unwrap(), &axes, base, true)
    }

    fn name(item: &Item) -> &str {
        item.request.name.as_ref().map_or("", RunName::as_str)
    }

    #[test]
    fn a_line_overrides_the_command_line_and_other_options_stay() {
        let base = RunRequest {
            model: Some("base".to_owned()),
            name: Some("night".parse().unwrap()),
            ..RunRequest::default()
        };
        let text =
            "{\"prompt\":\"a\",\"model\":\"own\",\"name\":\"first\",\"timeout\":\"5m\"}\nplain\n";
        let items = made(text, &[], &base).unwrap();
        let models: Vec<_> = items.iter().map(|it| it.request.model.as_deref().unwrap()).collect();
        assert_eq!(models, ["own", "base"]);
        assert_eq!([name(&items[0]), name(&items[1])], ["first", "night-2"]);
        assert_eq!(items[1].request.labels, ["batch/line=2".parse().unwrap()]);
        assert!(items[0].request.timeout.is_some() && items[1].request.timeout.is_none());
        let text = "{\"prompt\":\"a\",\"max_tool_calls\":7,\"max_tokens\":\"20k\"}";
        let request = &made(text, &[], &base).unwrap()[0].request;
        let limits = (request.max_tool_calls, request.max_tokens);
        assert_eq!(limits, (Some(CountLimit(7)), Some(CountLimit(20_000))));
    }

    #[test]
    fn a_matrix_multiplies_the_lines_and_numbers_their_names() {
        let text = "{\"prompt\":\"a\",\"name\":\"x\"}\nb\n";
        let items = made(text, &["model=m,n", "mode=ask,plan"], &RunRequest::default()).unwrap();
        assert_eq!(items.len(), 8);
        let names: Vec<&str> = items.iter().map(name).collect();
        assert_eq!(names, ["x-1", "x-2", "x-3", "x-4", "", "", "", ""]);
    }

    #[test]
    fn bad_values_are_reported_with_their_line() {
        let text = "ok\n{\"prompt\":\"a\",\"mode\":\"think\"}\n{\"prompt\":\"a\",\"name\":\"a b\"}\n\
            {\"prompt\":\"a\",\"timeout\":\"soon\"}\n{\"prompt\":\"a\",\"max_tokens\":-5}\n\
            {\"prompt\":\"a\",\"max_tool_calls\":[1]}\n{\"prompt\":\"a\",\"memory\":\"1MiB\"}\n";
        let bad = parse(text.as_bytes()).unwrap_err();
        let numbers: Vec<usize> = bad.0.iter().map(|(line, _)| *line).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 6, 7]);
        assert!(bad.to_string().contains("line 4: `timeout`: `soon` is not a duration"), "{bad}");
    }

    #[test]
    fn batch_wide_options_are_refused_in_a_line() {
        let session = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
        let text = format!(
            "{{\"prompt\":\"a\",\"profile\":\"off\"}}\n{{\"prompt\":\"a\",\"name\":\"twin\"}}\n\
             {{\"prompt\":\"a\",\"name\":\"twin\"}}\n{{\"prompt\":\"a\",\"session\":\"{session}\"}}\n\
             {{\"prompt\":\"a\",\"force\":true}}\n{{\"prompt\":\"a\",\"group\":\"x\"}}\n\
             {{\"prompt\":\"a\",\"memory\":\"1GiB\",\"no_force\":true}}\n"
        );
        let Err(ItemsError::Lines(bad)) = made(&text, &[], &RunRequest::default()) else {
            panic!("the bad items were accepted")
        };
        let numbers: Vec<usize> = bad.0.iter().map(|(line, _)| *line).collect();
        assert_eq!(numbers, [1, 3, 4, 5, 6]);
        assert!(bad.to_string().contains("line 2 already has the name `twin`"), "{bad}");
        assert!(bad.to_string().contains("`force` cannot be set in a line of a batch"), "{bad}");
    }

    #[test]
    fn a_line_cannot_name_a_program_or_give_its_run_more_access_than_the_flags() {
        let base = RunRequest { mode: Some(Mode::Ask), ..RunRequest::default() };
        for more in [
            "\"agent\":\"/opt/agent\"",
            "\"agent_flags\":[\"--x\"]",
            "\"secret\":[\"A=file:/etc/shadow\"]",
            "\"expose\":[\"/etc\"]",
            "\"network\":\"host\"",
            "\"allow_host\":[\"evil.example\"]",
            "\"registries\":[]",
            "\"user_mcp\":true",
            "\"mcp\":[\"a\"]",
            "\"mcp_from_repo\":[\"a\"]",
            "\"mode\":\"agent\"",
        ] {
            let text = format!("{{\"prompt\":\"a\",{more}}}");
            let Err(ItemsError::Lines(bad)) = made(&text, &[], &base) else {
                panic!("{more} was accepted")
            };
            assert!(bad.to_string().contains("cannot be set in a line of a batch"), "{bad}");
        }
        assert!(made("{\"prompt\":\"a\",\"mode\":\"plan\"}", &[], &base).is_ok());
    }

    #[test]
    fn a_batch_with_too_many_runs_is_refused() {
        let error = made(&"x\n".repeat(6000), &["model=a,b"], &RunRequest::default()).unwrap_err();
        assert_eq!(error, ItemsError::TooMany(12_000));
    }
}
