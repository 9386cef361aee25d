//! From constraints to matchers.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use llguidance::{
    ParserFactory,
    api::{ParserLimits, TopLevelGrammar},
    earley::{BiasComputer, ParserRecognizer, SlicedBiasComputer},
};
use pelton_tokenizer::Tokenizer;
use toktrie::{InferenceCapabilities, SimpleVob, TokEnv, TokTrie};

use crate::{Constraint, Error, Matcher, gbnf, lark, numbers::Numbers, schema, vocabulary, work};

/// The most bytes of a constraint's text.
const BYTES_MAX: usize = 1 << 20;
/// Compiled constraints that are kept.
const CACHED: usize = 64;
/// The most bytes of the texts of compiled constraints that are kept.
const CACHED_BYTES: usize = 4 << 20;
/// Bytes of a grammar or an expression up to which a text without an alternative is appended as a
/// whole. The compiler looks for all of it after each token.
const FORCED_MAX: usize = 16 << 10;
/// States of a lexer, of 1 to 2 kB each.
const LEXER_STATES: usize = 50_000;

/// Limit of items of a parser at one place: objects of 2,000 properties have four for each.
const ROW_ITEMS: usize = 8200;

/// The vocabulary of a model, and the constraints that were compiled for it.
///
/// A compilation takes milliseconds, or as long as its limits allow (about a second). It runs on a
/// thread of its own, at most two of them in the process at once. The caller waits at most five
/// seconds for its turn, and as long for its result. The most recent constraints are kept.
pub struct Compiler {
    shared: Arc<Shared>,
}

/// The state that all compilations share.
struct Shared {
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
            max_items_in_row: ROW_ITEMS,
            // its errors would quote the text
            verbose_errors: false,
            ..ParserLimits::default()
        };
        let shared = Shared { factory, environment, tokens, cache: Mutex::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A matcher at the beginning of a text.
    ///
    /// # Errors
    ///
    /// If the constraint is too large, is not sound, has parts that cannot be enforced, or is not
    /// compiled in time.
    pub fn compile(&self, constraint: &Constraint) -> Result<Matcher, Error> {
        self.compile_within(constraint, work::WAIT)
    }

    /// As [`compile`](Self::compile), for a caller that waits at most `wait` for its turn, and as
    /// long for its result. No wait is longer than five seconds.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile).
    pub fn compile_within(
        &self,
        constraint: &Constraint,
        wait: Duration,
    ) -> Result<Matcher, Error> {
        let key = key(constraint)?;
        if let Some(matcher) = self.shared.cached(&key) {
            return Ok(matcher);
        }
        let (grammar, numbers) = grammar(constraint, &key)?;
        // llguidance rolls no grammar back that counts tokens or stops at a text
        let rolls_back = match constraint {
            Constraint::Lark(text) => {
                !["max_tokens", "stop"].iter().any(|word| text.contains(word))
            }
            _ => true,
        };
        let is_schema = matches!(constraint, Constraint::JsonSchema(_)) || key.contains("%json");
        let is_forced = is_schema || key.len() <= FORCED_MAX;
        let shared = Arc::clone(&self.shared);
        let compiled = work::run(wait.min(work::WAIT), move || {
            // others may have asked for the same
            if let Some(matcher) = shared.cached(&key) {
                return Ok(matcher);
            }
            let matcher = shared.compile(grammar, &numbers, is_forced, rolls_back)?;
            let copy = matcher.copy();
            shared.keep(key, matcher);
            Ok(copy)
        })?;
        compiled.map_err(|reason: String| match constraint {
            Constraint::JsonSchema(_) | Constraint::JsonObject => Error::Schema(reason),
            Constraint::Regex(_) => Error::Regex(reason),
            Constraint::Lark(_) => Error::Lark(reason),
            Constraint::Gbnf(_) => Error::Gbnf { line: 1, reason },
        })
    }
}

/// Computes no mask.
///
/// llguidance gives a lexer its limit of states when it computes a mask, and follows forced text
/// before: a repetition of 20 bytes forces megabytes. A mask of no tokens sets the limit first.
struct NoTokens<'a>(&'a TokEnv);

impl BiasComputer for NoTokens<'_> {
    fn compute_bias(&self, _: &mut ParserRecognizer<'_>, _: &[u8]) -> SimpleVob {
        self.trie().alloc_token_set()
    }

    fn trie(&self) -> &TokTrie {
        self.0.tok_trie()
    }
}

impl Shared {
    fn compile(
        &self,
        grammar: TopLevelGrammar,
        numbers: &Numbers,
        is_forced: bool,
        rolls_back: bool,
    ) -> Result<Matcher, String> {
        let compile = || {
            let grammar =
                numbers.put(grammar, &self.environment, self.factory.limits(), is_forced)?;
            let mut parser = self.factory.create_parser_from_init_default(grammar);
            if let Ok(parser) = &mut parser {
                parser.parser.compute_bias(&NoTokens(&self.environment), b"-");
            }
            Ok::<_, String>(llguidance::Matcher::new(parser))
        };
        let inner = catch_unwind(AssertUnwindSafe(compile))
            .map_err(|_| "its compiler panicked".to_owned())?
            .map_err(|error| schema::reworded(&error))?;
        if let Some(error) = inner.get_error() {
            return Err(schema::reworded(&error));
        }
        Ok(Matcher::new(inner, Arc::clone(&self.environment), self.tokens, rolls_back))
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
        f.debug_struct("Compiler").field("tokens", &self.shared.tokens).finish_non_exhaustive()
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

/// The compiler's grammar, and the numbers of its schemas.
fn grammar(constraint: &Constraint, key: &str) -> Result<(TopLevelGrammar, Numbers), Error> {
    let mut numbers = Numbers::new(key);
    let grammar = match constraint {
        Constraint::JsonSchema(schema) => {
            TopLevelGrammar::from_json_schema(schema::checked(schema, &mut numbers)?.0)
        }
        Constraint::JsonObject => TopLevelGrammar::from_json_schema(schema::object()),
        Constraint::Regex(regex) => TopLevelGrammar::from_regex(lark::regex(regex)?),
        Constraint::Lark(grammar) => {
            TopLevelGrammar::from_lark(lark::checked(grammar, &mut numbers)?)
        }
        Constraint::Gbnf(grammar) => {
            let grammar = gbnf::gbnf_to_lark(grammar)?;
            TopLevelGrammar::from_lark(lark::checked(&grammar, &mut numbers)?)
        }
    };
    Ok((grammar, numbers))
}

impl Constraint {
    /// A JSON schema from its text.
    ///
    /// # Errors
    ///
    /// If it is no JSON, or if a number of it would be rounded.
    ///
    /// ```
    /// use pelton_constraint::Constraint;
    ///
    /// assert!(Constraint::json_schema("{\"const\": 9007199254740993}").is_ok());
    /// assert!(Constraint::json_schema("{\"const\": 18446744073709551617}").is_err());
    /// ```
    pub fn json_schema(text: &str) -> Result<Self, Error> {
        Self::check_numbers(text)?;
        let schema = serde_json::from_str(text);
        schema
            .map(Self::JsonSchema)
            .map_err(|error| Error::Schema(format!("it is no JSON: {error}")))
    }

    /// Refuses a JSON text, such as a request with a schema, if a bound or a constant of a schema
    /// would be rounded. Parsed JSON has integers of 64 bits, and floats of as many for all else.
    /// Text that is no JSON may pass.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`] that names the number.
    pub fn check_numbers(json: &str) -> Result<(), Error> {
        schema::check_numbers(json)
    }

    /// Whether it is small enough and has no part that is known to be refused. Its compilation may
    /// find more.
    ///
    /// # Errors
    ///
    /// As those of [`Compiler::compile`], of what is found without a compilation.
    pub fn check(&self) -> Result<(), Error> {
        let key = key(self)?;
        grammar(self, &key).map(|_| ())
    }
}
