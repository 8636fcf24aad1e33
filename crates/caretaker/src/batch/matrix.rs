//! `--matrix NAME=A,B`: every combination of the values.

use std::str::FromStr;

use run_protocol::{Mode, NotAMode, RunRequest};

/// The options that `--matrix` can vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AxisName {
    Model,
    Mode,
    Profile,
    Workspace,
}

/// One option to vary, and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) name: AxisName,
    pub(crate) values: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MatrixError {
    #[error("write NAME=VALUE,VALUE; NAME is model, mode, profile or workspace")]
    Form,
    #[error("cannot vary `{0}`; use model, mode, profile or workspace")]
    Name(String),
    #[error("`{0}` is given twice")]
    Twice(String),
    #[error("empty value between the commas")]
    NoValue,
    #[error("both line {line} and --matrix set the {}", .name.as_str())]
    SetByLine { line: usize, name: AxisName },
    #[error(transparent)]
    Mode(#[from] NotAMode),
}

impl AxisName {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Mode => "mode",
            Self::Profile => "profile",
            Self::Workspace => "workspace",
        }
    }

    /// Sets the option. Returns true if it already had a value.
    fn set(self, request: &mut RunRequest, value: &str) -> Result<bool, NotAMode> {
        Ok(match self {
            Self::Model => request.model.replace(value.to_owned()).is_some(),
            Self::Mode => request.mode.replace(value.parse()?).is_some(),
            Self::Profile => request.profile.replace(value.to_owned()).is_some(),
            Self::Workspace => request.workspace.replace(value.into()).is_some(),
        })
    }
}

impl FromStr for Axis {
    type Err = MatrixError;

    fn from_str(text: &str) -> Result<Self, MatrixError> {
        let (name, values) = text.split_once('=').ok_or(MatrixError::Form)?;
        let name = [AxisName::Model, AxisName::Mode, AxisName::Profile, AxisName::Workspace]
            .into_iter()
            .find(|known| known.as_str() == name.trim())
            .ok_or_else(|| MatrixError::Name(name.to_owned()))?;
        let values: Vec<String> = values.split(',').map(|it| it.trim().to_owned()).collect();
        for (index, value) in values.iter().enumerate() {
            if value.is_empty() {
                return Err(MatrixError::NoValue);
            }
            if values[..index].contains(value) {
                return Err(MatrixError::Twice(value.clone()));
            }
            if name == AxisName::Mode {
                value.parse::<Mode>()?;
            }
        }
        Ok(Self { name, values })
    }
}

/// One combination: the value of each axis.
pub(crate) type Combination<'a> = Vec<(AxisName, &'a str)>;

/// Every combination; the last axis changes fastest. Without an axis there is one empty combination.
pub(crate) fn combinations(axes: &[Axis]) -> Result<Vec<Combination<'_>>, MatrixError> {
    for (index, axis) in axes.iter().enumerate() {
        if axes[..index].iter().any(|earlier| earlier.name == axis.name) {
            return Err(MatrixError::Twice(axis.name.as_str().to_owned()));
        }
    }
    let mut all: Vec<Combination<'_>> = vec![Vec::new()];
    for axis in axes {
        all = all
            .iter()
            .flat_map(|before| {
                axis.values.iter().map(|value| {
                    let mut longer = before.clone();
                    longer.push((axis.name, value.as_str()));
                    longer
                })
            })
            .collect();
    }
    Ok(all)
}

/// A line's request, with the values of one combination set.
pub(crate) fn vary(
    line: usize,
    request: &RunRequest,
    combination: &Combination<'_>,
) -> Result<RunRequest, MatrixError> {
    let mut varied = request.clone();
    for (name, value) in combination {
        if name.set(&mut varied, value)? {
            return Err(MatrixError::SetByLine { line, name: *name });
        }
    }
    Ok(varied)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_axis_needs_a_known_name_and_different_values() {
        let axis: Axis = "model=a, b".parse().unwrap();
        assert_eq!((axis.name, axis.values), (AxisName::Model, vec!["a".into(), "b".into()]));
        for (text, error) in [
            ("model", MatrixError::Form),
            ("colour=red", MatrixError::Name("colour".to_owned())),
            ("model=a,,b", MatrixError::NoValue),
            ("model=", MatrixError::NoValue),
            ("model=a,a", MatrixError::Twice("a".to_owned())),
            ("mode=ask,think", "think".parse::<Mode>().unwrap_err().into()),
        ] {
            assert_eq!(text.parse::<Axis>(), Err(error), "{text}");
        }
    }

    #[test]
    fn a_line_that_sets_a_varied_option_is_refused_with_its_number() {
        let axes = ["model=a,b".parse().unwrap()];
        let request = RunRequest { model: Some("c".to_owned()), ..RunRequest::default() };
        let error = vary(3, &request, &combinations(&axes).unwrap()[0]).unwrap_err();
        assert_eq!(error.to_string(), "both line 3 and --matrix set the model");
        let twice = ["model=a".parse().unwrap(), "model=b".parse().unwrap()];
        assert_eq!(combinations(&twice), Err(MatrixError::Twice("model".to_owned())));
    }

    proptest! {
        /// The number of combinations is the product of the axis lengths. All are different, and each has every axis.
        #[test]
        fn every_combination_comes_once(models in 1usize..6, modes in 1usize..4, profiles in 0usize..4) {
            let axis = |name: AxisName, n: usize| Axis { name, values: (0..n).map(|it| format!("v{it}")).collect() };
            let mut axes = vec![axis(AxisName::Model, models), axis(AxisName::Mode, modes)];
            if profiles > 0 {
                axes.push(axis(AxisName::Profile, profiles));
            }
            let all = combinations(&axes).unwrap();
            prop_assert_eq!(all.len(), models * modes * profiles.max(1));
            let distinct: std::collections::BTreeSet<String> =
                all.iter().map(|it| format!("{it:?}")).collect();
            prop_assert_eq!(distinct.len(), all.len());
            prop_assert!(all.iter().all(|it| it.len() == axes.len()));
        }
    }
}
