//! Flags of constraints.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use pelton::{Constraint, GenerateOptions};

/// Flags of constraints, of which one can be given.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Constraints")]
pub(crate) struct ConstraintArgs {
    /// Generate JSON that the schema in this file allows
    #[arg(long, value_name = "FILE", group = "constraint")]
    json_schema: Option<PathBuf>,
    /// Generate a JSON object
    #[arg(long, group = "constraint")]
    json_object: bool,
    /// Generate a text that this regular expression matches as a whole
    #[arg(long, value_name = "R", group = "constraint")]
    regex: Option<String>,
    /// Generate a text of the grammar in this file: GBNF where it has ::=, else Lark
    #[arg(long, value_name = "FILE", group = "constraint")]
    grammar: Option<PathBuf>,
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

    fn constraint(&self) -> Result<Option<Constraint>> {
        Ok(Some(match self {
            Self { json_schema: Some(path), .. } => Constraint::json_schema(&read(path)?)
                .with_context(|| format!("the schema in {}", path.display()))?,
            Self { json_object: true, .. } => Constraint::JsonObject,
            Self { regex: Some(regex), .. } => Constraint::Regex(regex.clone()),
            Self { grammar: Some(path), .. } => grammar(path)?,
            _ => return Ok(None),
        }))
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("{}", path.display()))
}

/// The grammar of a file: GBNF where it has `::=`, else Lark.
pub(crate) fn grammar(path: &Path) -> Result<Constraint> {
    Ok(match read(path)? {
        grammar if grammar.contains("::=") => Constraint::Gbnf(grammar),
        grammar => Constraint::Lark(grammar),
    })
}
