//! The programs that a shell command would run, for `parsingResult` and the allow-list.
//!
//! It uses tree-sitter's parser for bash, whose node names appear in captured calls.

use tree_sitter::{Node, Parser};

/// The commands that a command line would run, as far as a parser can tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ParsedCommand {
    /// Commands inside a substitution come before the command around it.
    pub(crate) commands: Vec<SimpleCommand>,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) has_command_substitution: bool,
    pub(crate) parsing_failed: bool,
}

/// One program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    /// The name without quotes.
    pub(crate) name: String,
    pub(crate) args: Vec<Word>,
    pub(crate) full_text: String,
}

/// A word as written, including quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// `word`, `number`, `string`, `raw_string`, `concatenation` …
    pub(crate) kind: String,
    pub(crate) text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) operator: String,
    pub(crate) target: String,
}

impl ParsedCommand {
    pub(crate) fn parse(source: &str) -> Self {
        let mut parser = Parser::new();
        let is_ready = parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_ok();
        let Some(tree) = parser.parse(source, None).filter(|_| is_ready) else {
            return Self { parsing_failed: true, ..Self::default() };
        };
        let mut parsed = Self { parsing_failed: tree.root_node().has_error(), ..Self::default() };
        // Children first, and without recursion: a command may be nested deeply.
        let mut cursor = tree.walk();
        loop {
            if cursor.goto_first_child() {
                continue;
            }
            loop {
                parsed.add(cursor.node(), source);
                if cursor.goto_next_sibling() {
                    break;
                }
                if !cursor.goto_parent() {
                    return parsed;
                }
            }
        }
    }

    pub(crate) fn has_input_redirect(&self) -> bool {
        self.redirects.iter().any(|redirect| redirect.operator.contains('<'))
    }

    pub(crate) fn has_output_redirect(&self) -> bool {
        self.redirects.iter().any(|redirect| redirect.operator.contains('>'))
    }

    fn add(&mut self, node: Node<'_>, source: &str) {
        match node.kind() {
            "command" => self.commands.extend(SimpleCommand::of(node, source)),
            "command_substitution" | "process_substitution" => self.has_command_substitution = true,
            "file_redirect" | "heredoc_redirect" | "herestring_redirect" => {
                self.redirects.extend(Redirect::of(node, source));
            }
            _ => {}
        }
    }
}

impl SimpleCommand {
    fn of(node: Node<'_>, source: &str) -> Option<Self> {
        let name = node.child_by_field_name("name")?;
        let mut cursor = node.walk();
        let args = node.children_by_field_name("argument", &mut cursor);
        Some(Self {
            name: text(name, source).replace(['\'', '"', '\\'], ""),
            args: args
                .map(|arg| Word { kind: arg.kind().to_owned(), text: text(arg, source) })
                .collect(),
            full_text: text(node, source),
        })
    }
}

impl Redirect {
    fn of(node: Node<'_>, source: &str) -> Option<Self> {
        let mut cursor = node.walk();
        let operator = node.children(&mut cursor).find(|child| !child.is_named())?;
        let target = operator.next_named_sibling()?;
        Some(Self { operator: text(operator, source), target: text(target, source) })
    }
}

fn text(node: Node<'_>, source: &str) -> String {
    source[node.byte_range()].to_owned()
}

#[cfg(test)]
#[path = "syntax_tests.rs"]
mod tests;
