//! Reads the command line the way commander, the library cursor-agent uses, reads it.

mod suggestion;
pub mod table;

use table::{Arity, CommandSpec, OptionSpec};

pub use suggestion::suggest;

/// What the person asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Names of the subcommands, outermost first; empty for a prompt.
    pub command: Vec<&'static str>,
    pub options: Options,
    pub words: Vec<String>,
}

/// The options that were given, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options(Vec<(&'static str, Option<String>)>);

impl Options {
    /// Whether the option was given, with or without a value.
    pub fn has(&self, long: &str) -> bool {
        self.0.iter().any(|(name, _)| *name == long)
    }

    /// The value given last: later options win.
    pub fn value(&self, long: &str) -> Option<&str> {
        self.0.iter().rev().find(|(name, _)| *name == long).and_then(|(_, value)| value.as_deref())
    }
}

/// Why there is nothing to do after reading the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum NothingToDo {
    Version,
    Help(Topic),
    /// Nothing was asked for that can be done: help as a complaint, on stderr and with exit 1.
    HelpInstead(Topic),
    /// The complaint, as commander words it.
    Mistake(String),
}

/// A command somebody needs help with.
#[derive(Debug, PartialEq, Eq)]
pub struct Topic {
    /// Names of the commands above it, outermost first.
    pub parents: Vec<&'static str>,
    pub command: &'static CommandSpec,
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: &[String]) -> Result<Invocation, NothingToDo> {
    let mut invocation =
        Invocation { command: Vec::new(), options: Options::default(), words: Vec::new() };
    parse_command(&table::AGENT, Vec::new(), arguments.to_vec(), &mut invocation)?;
    Ok(invocation)
}

fn parse_command(
    spec: &'static CommandSpec,
    mut operands: Vec<String>,
    arguments: Vec<String>,
    invocation: &mut Invocation,
) -> Result<(), NothingToDo> {
    let sorted = sort_arguments(spec, arguments, &mut invocation.options)?;
    operands.extend(sorted.operands);
    if let Some(subcommand) = operands.first().and_then(|name| spec.subcommand(name)) {
        invocation.command.push(subcommand.name);
        operands.remove(0);
        return parse_command(subcommand, operands, sorted.unknown, invocation);
    }
    let mut path = vec![table::AGENT.name];
    path.extend(&invocation.command);
    let topic = || Topic { parents: path[..path.len() - 1].to_vec(), command: spec };
    if operands.first().is_some_and(|name| name == "help") && !spec.subcommands.is_empty() {
        let Some(name) = operands.get(1) else { return Err(NothingToDo::Help(topic())) };
        return Err(match spec.subcommand(name) {
            Some(command) => NothingToDo::Help(Topic { parents: path, command }),
            None => NothingToDo::HelpInstead(topic()),
        });
    }
    if sorted.unknown.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Err(NothingToDo::Help(topic()));
    }
    if let Some(unknown) = sorted.unknown.first() {
        return Err(unknown_option(spec, unknown));
    }
    if operands.is_empty() && spec.is_a_group() {
        return Err(NothingToDo::HelpInstead(topic()));
    }
    check_operands(spec, &operands)?;
    invocation.words = operands;
    Ok(())
}

struct Sorted {
    operands: Vec<String>,
    /// From the first option this command does not know; the subcommand may know it.
    unknown: Vec<String>,
}

/// Takes the options this command knows and leaves the rest in two heaps.
fn sort_arguments(
    spec: &'static CommandSpec,
    arguments: Vec<String>,
    options: &mut Options,
) -> Result<Sorted, NothingToDo> {
    let mut sorted = Sorted { operands: Vec::new(), unknown: Vec::new() };
    let mut met_unknown = false;
    let mut left: std::collections::VecDeque<String> = arguments.into();
    while let Some(argument) = left.pop_front() {
        if argument == "--" {
            let heap = if met_unknown { &mut sorted.unknown } else { &mut sorted.operands };
            if met_unknown {
                heap.push(argument);
            }
            heap.extend(left);
            break;
        }
        if let Some(option) = spec.option(&argument) {
            let value = match option.arity() {
                Arity::Flag => None,
                // A required value is taken even when it looks like an option.
                Arity::Required => Some(left.pop_front().ok_or_else(|| missing_value(option))?),
                Arity::Optional => left.pop_front_if(|next| !looks_like_option(next)),
            };
            take(option, value, options)?;
            continue;
        }
        if let Some((option, attached)) = cluster(spec, &argument) {
            match option.arity() {
                Arity::Flag => {
                    take(option, None, options)?;
                    left.push_front(format!("-{attached}"));
                }
                Arity::Required | Arity::Optional => {
                    take(option, Some(attached.to_owned()), options)?;
                }
            }
            continue;
        }
        if let Some((name, value)) = argument.split_once('=')
            && name.starts_with("--")
            && let Some(option) = spec.option(name)
            && option.arity() != Arity::Flag
        {
            take(option, Some(value.to_owned()), options)?;
            continue;
        }
        met_unknown |= looks_like_option(&argument);
        if met_unknown { &mut sorted.unknown } else { &mut sorted.operands }.push(argument);
    }
    Ok(sorted)
}

/// Splits `-pf` into the option `-p` and the attached `f`.
fn cluster<'a>(
    spec: &'static CommandSpec,
    argument: &'a str,
) -> Option<(&'static OptionSpec, &'a str)> {
    let letters = argument.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    let first = letters.chars().next()?;
    let attached = &letters[first.len_utf8()..];
    let option = spec.option(&format!("-{first}"))?;
    (!attached.is_empty()).then_some((option, attached))
}

fn take(
    option: &'static OptionSpec,
    value: Option<String>,
    options: &mut Options,
) -> Result<(), NothingToDo> {
    if option.long() == "version" {
        return Err(NothingToDo::Version);
    }
    if let Some(value) = &value
        && !option.choices.is_empty()
        && !option.choices.contains(&value.as_str())
    {
        return Err(NothingToDo::Mistake(format!(
            "error: option '{}' argument '{value}' is invalid. Allowed choices are {}.",
            option.flags,
            option.choices.join(", ")
        )));
    }
    options.0.push((option.long(), value));
    Ok(())
}

fn looks_like_option(argument: &str) -> bool {
    argument.len() > 1 && argument.starts_with('-')
}

fn missing_value(option: &OptionSpec) -> NothingToDo {
    NothingToDo::Mistake(format!("error: option '{}' argument missing", option.flags))
}

fn unknown_option(spec: &CommandSpec, unknown: &str) -> NothingToDo {
    let mut mistake = format!("error: unknown option '{unknown}'");
    // Only what help shows is ever suggested.
    if let Some(word) = unknown.strip_prefix("--") {
        let known = spec.visible_options().map(OptionSpec::long).chain(["help"]);
        mistake.push_str(&did_you_mean(&suggest(word, known), "--"));
    }
    NothingToDo::Mistake(mistake)
}

fn did_you_mean(similar: &[&str], prefix: &str) -> String {
    let names: Vec<String> = similar.iter().map(|name| format!("{prefix}{name}")).collect();
    match names.len() {
        0 => String::new(),
        1 => format!("\n(Did you mean {}?)", names[0]),
        _ => format!("\n(Did you mean one of {}?)", names.join(", ")),
    }
}

fn check_operands(spec: &'static CommandSpec, operands: &[String]) -> Result<(), NothingToDo> {
    let mistake = if let Some(word) = operands.first().filter(|_| spec.is_a_group()) {
        let similar = suggest(word, spec.subcommands.iter().map(|command| command.name));
        format!("error: unknown command '{word}'{}", did_you_mean(&similar, ""))
    } else if let Some(missing) = spec.required_words().nth(operands.len()) {
        format!("error: missing required argument '{missing}'")
    } else if !spec.takes_words() && operands.len() > spec.required_words().count() {
        let n_expected = spec.required_words().count();
        let plural = if n_expected == 1 { "" } else { "s" };
        format!(
            "error: too many arguments for '{}'. Expected {n_expected} argument{plural} but got {}.",
            spec.name,
            operands.len()
        )
    } else {
        return Ok(());
    };
    Err(NothingToDo::Mistake(mistake))
}

#[cfg(test)]
#[path = "command_line_tests.rs"]
mod tests;
