//! From lines and axes to the runs that are wanted, each with its options.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use admission::budgets::CountLimit;
use admission::request::run_marks::RunName;
use admission::request::run_options::{Mode, RunOptions};
use admission::sandbox::profiles;
use serde_json::Value;

use super::matrix::{self, Axis};
use super::prompt_lines::{BadLines, Line, MOST_RUNS, Wish};

/// The label by which a run is found in the file it came from.
pub(crate) const LINE_LABEL: &str = "batch/line";

/// A run that is wanted.
#[derive(Debug)]
pub(crate) struct Item {
    /// Of the file; `None` where the prompt was given in another way.
    pub(crate) line: Option<usize>,
    pub(crate) prompt: Vec<u8>,
    /// As it was written; relative ones are below where we are.
    pub(crate) workspace: Option<PathBuf>,
    pub(crate) options: RunOptions,
}

/// Says why a batch cannot be made of what was given.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ItemsError {
    #[error(transparent)]
    Lines(#[from] BadLines),
    #[error(transparent)]
    Matrix(#[from] matrix::MatrixError),
    #[error("these are {0} runs; at most {MOST_RUNS} are started at once")]
    TooMany(usize),
    #[error("--matrix: {0}")]
    Value(String),
    #[error("`--name {0}` is too long to be numbered")]
    Name(String),
}

/// Every line in every combination. `has_lines`: whether the lines are of a file, so that their numbers mean something.
pub(crate) fn items(
    lines: &[Line],
    axes: &[Axis],
    base: &RunOptions,
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
            let mut wish = matrix::vary(line.number, &line.wish, combination)?;
            if combinations.len() > 1 {
                wish.name = wish.name.map(|name| format!("{name}-{}", index + 1));
            }
            let item = match options(&wish, base) {
                Ok(options) => Item {
                    line: has_lines.then_some(line.number),
                    prompt: wish.prompt.clone().into_bytes(),
                    workspace: wish.workspace.as_ref().map(PathBuf::from),
                    options,
                },
                Err(problem) if has_lines => {
                    bad.0.push((line.number, problem));
                    continue;
                }
                Err(problem) => return Err(ItemsError::Value(problem)),
            };
            if let Some(name) = &wish.name
                && let Some(earlier) = names.insert(name.clone(), line.number)
            {
                bad.0.push((line.number, format!("line {earlier} has the name `{name}` already")));
            }
            items.push(item);
        }
    }
    bad.0.dedup();
    if !bad.0.is_empty() {
        return Err(bad.into());
    }
    finish(items, base)
}

/// Numbers the runs that have no name of their own, and marks each with its line.
fn finish(mut items: Vec<Item>, base: &RunOptions) -> Result<Vec<Item>, ItemsError> {
    for (index, item) in items.iter_mut().enumerate() {
        if let (None, Some(name)) = (&item.options.name, &base.name) {
            let numbered = format!("{}-{}", name.as_str(), index + 1);
            let numbered = numbered.parse();
            item.options.name =
                Some(numbered.map_err(|_| ItemsError::Name(name.as_str().to_owned()))?);
        }
        if let Some(line) = item.line
            && let Ok(label) = format!("{LINE_LABEL}={line}").parse()
        {
            item.options.labels.push(label);
        }
    }
    Ok(items)
}

/// What the wish says otherwise than the command line.
fn options(wish: &Wish, base: &RunOptions) -> Result<RunOptions, String> {
    let mut options = RunOptions { name: None, ..base.clone() };
    options.name = wish.name.as_deref().map(|name| parsed::<RunName>("name", name)).transpose()?;
    if wish.model.is_some() {
        options.model.clone_from(&wish.model);
    }
    if let Some(mode) = &wish.mode {
        options.mode = Some(match mode.as_str() {
            "plan" => Mode::Plan,
            "ask" => Mode::Ask,
            _ => return Err("`mode` is `plan` or `ask`".to_owned()),
        });
    }
    if let Some(profile) = &wish.profile {
        if profile == profiles::OFF {
            return Err("a sandbox is left away only with `--sandbox off`, for all".to_owned());
        }
        options.profile = Some(profile.clone());
    }
    if let Some(timeout) = &wish.timeout {
        options.timeout = Some(parsed("timeout", timeout)?);
    }
    if let Some(timeout) = &wish.idle_timeout {
        options.idle_timeout = Some(parsed("idle_timeout", timeout)?);
    }
    if let Some(most) = &wish.max_tool_calls {
        options.max_tool_calls = Some(count("max_tool_calls", most)?);
    }
    if let Some(most) = &wish.max_tokens {
        options.max_tokens = Some(count("max_tokens", most)?);
    }
    if let Some(priority) = wish.priority {
        if !(-100..=100).contains(&priority) {
            return Err("`priority` is from -100 to 100".to_owned());
        }
        options.queue.priority = Some(priority);
    }
    for (name, value) in &wish.labels {
        options.labels.push(parsed("labels", &format!("{name}={value}"))?);
    }
    for (name, value) in &wish.env {
        options.variables.push(parsed("env", &format!("{name}={value}"))?);
    }
    Ok(options)
}

/// `500`, or `"500"`, `"20k"`, `"none"`.
fn count(what: &str, written: &Value) -> Result<CountLimit, String> {
    match written {
        Value::String(text) => parsed(what, text),
        other => parsed(what, &other.to_string()),
    }
}

fn parsed<T: FromStr>(what: &str, text: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| format!("`{what}`: {error}"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::batch::prompt_lines::parse;

    fn made(text: &str, axes: &[&str], base: &RunOptions) -> Result<Vec<Item>, ItemsError> {
        let axes: Vec<Axis> = axes.iter().map(|axis| axis.parse().unwrap()).collect();
        items(&parse(text.as_bytes()).unwrap(), &axes, base, true)
    }

    fn name(item: &Item) -> &str {
        item.options.name.as_ref().map_or("", RunName::as_str)
    }

    #[test]
    fn a_line_wins_over_the_command_line_and_the_rest_is_kept() {
        let base = RunOptions {
            model: Some("base".to_owned()),
            name: Some("night".parse().unwrap()),
            ..RunOptions::default()
        };
        let text =
            "{\"prompt\":\"a\",\"model\":\"own\",\"name\":\"first\",\"timeout\":\"5m\"}\nplain\n";
        let items = made(text, &[], &base).unwrap();
        let models: Vec<_> = items.iter().map(|it| it.options.model.as_deref().unwrap()).collect();
        assert_eq!(models, ["own", "base"]);
        assert_eq!([name(&items[0]), name(&items[1])], ["first", "night-2"]);
        assert_eq!(items[1].options.labels, ["batch/line=2".parse().unwrap()]);
        assert!(items[0].options.timeout.is_some() && items[1].options.timeout.is_none());
        let text = "{\"prompt\":\"a\",\"max_tool_calls\":7,\"max_tokens\":\"20k\"}";
        let options = &made(text, &[], &base).unwrap()[0].options;
        let limits = (options.max_tool_calls, options.max_tokens);
        assert_eq!(limits, (Some(CountLimit(7)), Some(CountLimit(20_000))));
    }

    #[test]
    fn a_matrix_multiplies_the_lines_and_numbers_their_names() {
        let text = "{\"prompt\":\"a\",\"name\":\"x\"}\nb\n";
        let items = made(text, &["model=m,n", "mode=ask,plan"], &RunOptions::default()).unwrap();
        assert_eq!(items.len(), 8);
        let names: Vec<&str> = items.iter().map(name).collect();
        assert_eq!(names, ["x-1", "x-2", "x-3", "x-4", "", "", "", ""]);
    }

    #[test]
    fn bad_values_are_told_of_by_their_line() {
        let text = "ok\n{\"prompt\":\"a\",\"mode\":\"think\"}\n{\"prompt\":\"a\",\"name\":\"a b\"}\n\
            {\"prompt\":\"a\",\"profile\":\"off\"}\n{\"prompt\":\"a\",\"name\":\"twin\"}\n\
            {\"prompt\":\"a\",\"name\":\"twin\"}\n{\"prompt\":\"a\",\"timeout\":\"soon\"}\n\
            {\"prompt\":\"a\",\"max_tokens\":-5}\n{\"prompt\":\"a\",\"max_tool_calls\":[1]}\n";
        let Err(ItemsError::Lines(bad)) = made(text, &[], &RunOptions::default()) else {
            panic!("it was taken")
        };
        let numbers: Vec<usize> = bad.0.iter().map(|(line, _)| *line).collect();
        assert_eq!(numbers, [2, 3, 4, 6, 7, 8, 9]);
        assert!(bad.to_string().contains("line 5 has the name `twin` already"), "{bad}");
    }

    #[test]
    fn more_than_anybody_means_is_refused() {
        let error = made(&"x\n".repeat(6000), &["model=a,b"], &RunOptions::default()).unwrap_err();
        assert_eq!(error, ItemsError::TooMany(12_000));
    }
}
