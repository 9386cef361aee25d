//! Expressions of numbers that schemas refer to.
//!
//! A schema has no place for an expression of a number. So it gets a reference to a constant, a
//! text that the constraint does not contain. In the compiled lexer the constant's lexeme is
//! exchanged for the expression.

use std::collections::{BTreeSet, HashMap};

use llguidance::{
    api::{GrammarInit, ParserLimits, TopLevelGrammar},
    derivre::{RegexAst, RegexBuilder},
    earley::lexerspec::{LexemeSpec, LexerSpec},
};
use serde_json::{Map, Value, json};
use toktrie::TokEnv;

/// Limit of the work of the search for a text that an expression matches.
const SEARCH_MAX: u64 = 50_000;

/// An expression, and a number of which all its numbers are multiples, with its digits behind the
/// point.
type Expression = (String, Option<(u32, u32)>);

/// The expressions of a constraint's schemas.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The beginning of the constants.
    prefix: String,
    all: Vec<Expression>,
    known: HashMap<Expression, usize>,
    /// Those to which the current schema refers.
    used: BTreeSet<usize>,
}

impl Numbers {
    /// For a constraint of this text.
    pub(crate) fn new(text: &str) -> Self {
        let prefix = (0..).map(|i| format!("pelton-{i}-")).find(|prefix| !text.contains(prefix));
        let prefix = prefix.unwrap_or_default();
        Self { prefix, all: Vec::new(), known: HashMap::new(), used: BTreeSet::new() }
    }

    /// The beginning of the names of definitions that no schema has.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A reference to an expression of numbers; `None` if no number matches.
    pub(crate) fn add(&mut self, regex: String, factor: Option<(u32, u32)>) -> Option<Value> {
        let expression = (regex, factor);
        let index = match self.known.get(&expression) {
            Some(&index) => index,
            None => {
                if factor.is_some() && is_empty(&expression) {
                    return None;
                }
                self.all.push(expression.clone());
                self.known.insert(expression, self.all.len() - 1);
                self.all.len() - 1
            }
        };
        self.used.insert(index);
        Some(json!({ "$ref": format!("#/$defs/{}{index}", self.prefix) }))
    }

    /// The definitions to which the current schema refers. The next schema has none.
    pub(crate) fn definitions(&mut self) -> Map<String, Value> {
        // An alternative that is the reference itself allows nothing more. It makes the compiler
        // refuse to merge the constant with another schema.
        let definition = |index: usize| {
            let name = format!("{}{index}", self.prefix);
            let itself = format!("#/$defs/{name}");
            (name.clone(), json!({ "anyOf": [{ "$ref": itself }, { "const": name }] }))
        };
        let definitions = self.used.iter().map(|&index| definition(index)).collect();
        self.used.clear();
        definitions
    }

    /// The grammar with expressions in the places of the constants. Its text is not `forced` where
    /// the work for a token would grow with the text that has to follow.
    ///
    /// # Errors
    ///
    /// The compiler's, or if an expression is one of the grammar's own.
    pub(crate) fn put(
        &self,
        grammar: TopLevelGrammar,
        environment: &TokEnv,
        limits: &ParserLimits,
        is_forced: bool,
    ) -> Result<GrammarInit, String> {
        let grammar = GrammarInit::Serialized(grammar);
        if self.all.is_empty() && is_forced {
            return Ok(grammar);
        }
        let internal = grammar.to_internal(Some(TokEnv::clone(environment)), limits.clone());
        let (grammar, mut spec) = internal.map_err(|error| error.to_string())?;
        spec.no_forcing |= !is_forced;
        for lexeme in std::mem::take(&mut spec.lexemes) {
            let Some(expression) = self.index(&spec, &lexeme).and_then(|at| self.all.get(at))
            else {
                spec.lexemes.push(lexeme);
                continue;
            };
            let place = spec.lexemes.len();
            spec.current_class = lexeme.class();
            let added =
                spec.add_greedy_lexeme(String::new(), ast(expression), false, None, usize::MAX);
            let added = added.map_err(|error| error.to_string())?;
            if added.as_usize() != place {
                return Err("a number of it is the same as another expression".to_owned());
            }
        }
        Ok(GrammarInit::Internal(grammar, spec))
    }

    /// The expression whose constant a lexeme is.
    fn index(&self, spec: &LexerSpec, lexeme: &LexemeSpec) -> Option<usize> {
        let is_forced = |text: &str| spec.has_forced_bytes(lexeme, text.as_bytes());
        let mut text = format!("\"{}", self.prefix);
        if !is_forced(&text) {
            return None;
        }
        let start = text.len();
        while !is_forced(&format!("{text}\"")) {
            let next = ('0'..='9').find(|digit| is_forced(&format!("{text}{digit}")))?;
            text.push(next);
        }
        text[start..].parse().ok()
    }
}

fn ast((regex, factor): &Expression) -> RegexAst {
    let regex = RegexAst::Regex(regex.clone());
    match factor {
        None => regex,
        Some((factor, digits)) => {
            let sign = RegexAst::Regex("-?".to_owned());
            let multiple = RegexAst::Concat(vec![sign, RegexAst::MultipleOf(*factor, *digits)]);
            RegexAst::And(vec![regex, multiple])
        }
    }
}

/// Whether no number is known to match; one of too much work may match some.
fn is_empty(expression: &Expression) -> bool {
    let mut builder = RegexBuilder::new();
    let regex = builder.mk(&ast(expression));
    let regex = regex.and_then(|regex| builder.to_regex_limited(regex, SEARCH_MAX));
    regex.is_ok_and(|mut regex| regex.always_empty())
}
