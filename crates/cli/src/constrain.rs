//! Flags of constraints.

use std::fs;

use anyhow::{Context, Result};
use pelton::{Constraint, GenerateOptions};

/// Flags of constraints, of which one can be given.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Constraints")]
pub(crate) struct ConstraintArgs {
    /// Generate JSON of this schema: a file, or a text that begins with {
    #[arg(long, value_name = "FILE|JSON", group = "constraint")]
    json_schema: Option<String>,
    /// Generate a JSON object
    #[arg(long, group = "constraint")]
    json_object: bool,
    /// Generate a text that this regular expression matches as a whole
    #[arg(long, value_name = "R", group = "constraint")]
    regex: Option<String>,
    /// Generate a text of this grammar: a file, or the grammar itself. It is GBNF where
    /// it has ::=, else Lark
    #[arg(long, value_name = "FILE|GBNF", group = "constraint")]
    grammar: Option<String>,
    /// Begin the constraint after this text, such as </think>; may be given several times
    #[arg(long, value_name = "TEXT", requires = "constraint")]
    constrain_after: Vec<String>,
}

impl ConstraintArgs {
    /// Whether a constraint was given.
    pub(crate) fn is_some(&self) -> bool {
        self.json_object
            || self.json_schema.is_some()
            || self.regex.is_some()
            || self.grammar.is_some()
    }

    /// The options of a text with the constraint of the flags.
    pub(crate) fn apply(&self, options: GenerateOptions) -> Result<GenerateOptions> {
        let Some(constraint) = self.constraint()? else { return Ok(options) };
        let begin = |options: GenerateOptions, text: &String| options.constrain_after(text);
        Ok(self.constrain_after.iter().fold(options.constraint(constraint), begin))
    }

    /// The constraint of the flags, if there is one.
    pub(crate) fn constraint(&self) -> Result<Option<Constraint>> {
        Ok(Some(match self {
            Self { json_schema: Some(text), .. } if text.trim_start().starts_with('{') => {
                Constraint::json_schema(text).context("the schema of --json-schema")?
            }
            Self { json_schema: Some(path), .. } => Constraint::json_schema(&read(path)?)
                .with_context(|| format!("the schema in {path}"))?,
            Self { json_object: true, .. } => Constraint::JsonObject,
            Self { regex: Some(regex), .. } => Constraint::Regex(regex.clone()),
            Self { grammar: Some(text), .. } => grammar(text)?,
            _ => return Ok(None),
        }))
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.to_owned())
}

/// A grammar, or that of a file: GBNF where it has `::=`, else Lark.
pub(crate) fn grammar(text: &str) -> Result<Constraint> {
    if text.contains("::=") {
        return Ok(Constraint::Gbnf(text.to_owned()));
    }
    Ok(match read(text)? {
        grammar if grammar.contains("::=") => Constraint::Gbnf(grammar),
        grammar => Constraint::Lark(grammar),
    })
}
