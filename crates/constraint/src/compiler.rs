//! From constraints to matchers.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use llguidance::{
    ParserFactory,
    api::{ParserLimits, TopLevelGrammar},
    earley::SlicedBiasComputer,
};
use pelton_tokenizer::Tokenizer;
use toktrie::{InferenceCapabilities, TokEnv};

use crate::{Constraint, Error, Matcher, gbnf, lark, schema, vocabulary};

/// Bytes of a constraint's text, at most.
const BYTES_MAX: usize = 1 << 20;
/// Compiled constraints that are kept.
const CACHED: usize = 64;
/// Bytes of the texts of compiled constraints that are kept, at most.
const CACHED_BYTES: usize = 4 << 20;
/// States of a lexer, of 1 to 2 kB each.
const LEXER_STATES: usize = 50_000;

/// The vocabulary of a model, and the constraints that were compiled for it.
///
/// A compilation takes milliseconds, or as long as its limits allow (about 100 ms); it runs on the
/// calling thread. The most recent constraints are kept.
pub struct Compiler {
    factory: ParserFactory,
    environment: TokEnv,
    tokens: usize,
    /// The most recent last.
    cache: Mutex<VecDeque<(String, Matcher)>>,
}

impl Compiler {
    /// A compiler for a model's vocabulary. It takes about 0.1 s for 128,000 tokens.
    ///
    /// # Errors
    ///
    /// If the vocabulary is too large.
    pub fn new(tokenizer: &Arc<Tokenizer>) -> Result<Self, Error> {
        Self::with(vocabulary::of(tokenizer)?, tokenizer.vocab_size())
    }

    /// A compiler whose tokens are the 256 bytes, to compare texts with constraints.
    ///
    /// # Errors
    ///
    /// None that is known.
    pub fn of_bytes() -> Result<Self, Error> {
        Self::with(vocabulary::bytes()?, 257)
    }

    fn with(environment: TokEnv, tokens: usize) -> Result<Self, Error> {
        // forced text has to be encoded as the model's own
        let ff_tokens = environment.tokenize_is_canonical();
        let capabilities = InferenceCapabilities { ff_tokens, ..Default::default() };
        let slices = SlicedBiasComputer::json_slices();
        let mut factory = ParserFactory::new(&environment, capabilities, &slices)
            .map_err(|error| Error::Vocabulary(error.to_string()))?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            max_lexer_states: LEXER_STATES,
            // its errors would quote the text
            verbose_errors: false,
            ..ParserLimits::default()
        };
        Ok(Self { factory, environment, tokens, cache: Mutex::default() })
    }

    /// A matcher at the beginning of a text.
    ///
    /// # Errors
    ///
    /// If the constraint is too large, is not sound, or has parts that cannot be enforced.
    pub fn compile(&self, constraint: &Constraint) -> Result<Matcher, Error> {
        let key = key(constraint)?;
        if let Some(matcher) = self.cached(&key) {
            return Ok(matcher);
        }
        let grammar = grammar(constraint)?;
        let refused = |reason: String| match constraint {
            Constraint::JsonSchema(_) | Constraint::JsonObject => Error::Schema(reason),
            Constraint::Regex(_) => Error::Regex(reason),
            Constraint::Lark(_) => Error::Lark(reason),
            Constraint::Gbnf(_) => Error::Gbnf { line: 1, reason },
        };
        let compile = || llguidance::Matcher::new(self.factory.create_parser(grammar));
        let inner = catch_unwind(AssertUnwindSafe(compile))
            .map_err(|_| refused("its compiler panicked".to_owned()))?;
        if let Some(error) = inner.get_error() {
            return Err(refused(schema::reworded(&error)));
        }
        // llguidance rolls no grammar back that counts tokens or stops at a text
        let rolls_back = match constraint {
            Constraint::Lark(text) => {
                !["max_tokens", "stop"].iter().any(|word| text.contains(word))
            }
            _ => true,
        };
        let environment = Arc::clone(&self.environment);
        let matcher = Matcher::new(inner, environment, self.tokens, rolls_back);
        let copy = matcher.copy();
        self.keep(key, matcher);
        Ok(copy)
    }

    fn cached(&self, key: &str) -> Option<Matcher> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let at = cache.iter().position(|(other, _)| other == key)?;
        let entry = cache.remove(at)?;
        let matcher = entry.1.copy();
        cache.push_back(entry);
        Some(matcher)
    }

    fn keep(&self, key: String, matcher: Matcher) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.push_back((key, matcher));
        let bytes = |cache: &VecDeque<(String, Matcher)>| {
            cache.iter().map(|(key, _)| key.len()).sum::<usize>()
        };
        while cache.len() > CACHED || (cache.len() > 1 && bytes(&cache) > CACHED_BYTES) {
            cache.pop_front();
        }
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

/// A text that is different for different constraints, of bounded length.
fn key(constraint: &Constraint) -> Result<String, Error> {
    let key = match constraint {
        Constraint::JsonSchema(schema) => {
            schema::check_depth(schema)?;
            format!("s{schema}")
        }
        Constraint::JsonObject => "o".to_owned(),
        Constraint::Regex(regex) => format!("r{regex}"),
        Constraint::Lark(grammar) => format!("l{grammar}"),
        Constraint::Gbnf(grammar) => format!("g{grammar}"),
    };
    let found = key.len() - 1;
    if found > BYTES_MAX {
        return Err(Error::TooLarge { what: "bytes", found, limit: BYTES_MAX });
    }
    Ok(key)
}

fn grammar(constraint: &Constraint) -> Result<TopLevelGrammar, Error> {
    Ok(match constraint {
        Constraint::JsonSchema(schema) => {
            TopLevelGrammar::from_json_schema(schema::checked(schema)?)
        }
        Constraint::JsonObject => TopLevelGrammar::from_json_schema(schema::object()),
        Constraint::Regex(regex) => TopLevelGrammar::from_regex(lark::regex(regex)?),
        Constraint::Lark(grammar) => TopLevelGrammar::from_lark(lark::checked(grammar)?),
        Constraint::Gbnf(grammar) => TopLevelGrammar::from_lark(gbnf::gbnf_to_lark(grammar)?),
    })
}
