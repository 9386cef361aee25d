//! The grammar of tool calls as text, in llguidance's dialect of Lark.
//!
//! Markers such as `[TOOL_CALLS]` are control tokens in some vocabularies and ordinary text in
//! others. A grammar names the control tokens by their ids; everything else is text.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

use pelton_chat::{Error, Rule};
use pelton_tokenizer::{TokenType, Tokenizer};
use serde_json::Value;

use super::raw::Raw;

/// The text of a grammar for the tokens of a vocabulary.
///
/// # Errors
///
/// If a schema has a keyword that cannot be enforced in the notation of the format.
pub(super) fn lark(rule: &Rule, tokenizer: &Tokenizer) -> Result<String, Error> {
    let mut lark = Lark::new(tokenizer);
    let start = lark.expression(rule)?;
    Ok(format!("start: {start}\n{}", lark.rules))
}

/// A grammar that grows by rules.
pub(super) struct Lark {
    /// The texts of control tokens with their ids; `None` for tokens that end an output, at which a
    /// grammar ends without naming them.
    controls: Vec<(String, Option<u32>)>,
    /// The rules after `start`.
    rules: String,
    count: usize,
    /// The names of rules and terminals by their kinds and bodies: tools have most
    /// parameters in common.
    known: HashMap<(Kind, String), String>,
    /// Rules of the schemas that others refer to, by their notation and place.
    pub(super) references: BTreeMap<String, String>,
}

/// The kinds of definitions.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Rule,
    Terminal,
    Lazy,
}

/// A piece of a marker.
#[derive(Clone, Copy)]
enum Piece<'t> {
    Text(&'t str),
    /// A control token; `None` for one that ends the output.
    Token(Option<u32>),
}

impl Lark {
    fn new(tokenizer: &Tokenizer) -> Self {
        let ids = 0..u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
        let is_control = |&id: &u32| tokenizer.token_type(id) == Some(TokenType::Control);
        let control = |id| {
            let text = tokenizer.token_text(id).filter(|text| !text.is_empty())?;
            Some((text.to_owned(), (!tokenizer.is_end(id)).then_some(id)))
        };
        let mut controls: Vec<_> = ids.filter(is_control).filter_map(control).collect();
        // the longest of those that begin at the same place
        controls.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self {
            controls,
            rules: String::new(),
            count: 0,
            known: HashMap::new(),
            references: BTreeMap::new(),
        }
    }

    /// Adds a rule, or finds the one of that body, and returns its name.
    pub(super) fn rule(&mut self, body: &str) -> String {
        self.named(Kind::Rule, body)
    }

    fn named(&mut self, kind: Kind, body: &str) -> String {
        if let Some(name) = self.known.get(&(kind, body.to_owned())) {
            return name.clone();
        }
        let mut name = self.reserve();
        match kind {
            Kind::Rule => self.define(&name, body),
            Kind::Terminal => {
                name = name.replace('r', "T");
                self.define(&name, body);
            }
            Kind::Lazy => self.define(&format!("{name}[lazy]"), body),
        }
        self.known.insert((kind, body.to_owned()), name.clone());
        name
    }

    /// A name for a rule.
    pub(super) fn reserve(&mut self) -> String {
        self.count += 1;
        format!("r{}", self.count)
    }

    /// Adds the rule of a reserved name.
    pub(super) fn define(&mut self, name: &str, body: &str) {
        // writing to a string does not fail
        let _ = writeln!(self.rules, "{name}: {body}");
    }

    /// Adds a terminal, or finds the one of that body, and returns its name.
    pub(super) fn terminal(&mut self, body: &str) -> String {
        self.named(Kind::Terminal, body)
    }

    /// Adds a rule whose text ends as soon as it can, and returns its name.
    fn lazy(&mut self, body: &str) -> String {
        let terminal = self.terminal(body);
        self.named(Kind::Lazy, &terminal)
    }

    /// The expression of a rule.
    pub(super) fn expression(&mut self, rule: &Rule) -> Result<String, Error> {
        Ok(match rule {
            Rule::Text(text) => self.text(text),
            Rule::Json(schema) => self.rule(&format!("%json {schema}")),
            Rule::Raw { schema, end } => self.raw(schema, end)?,
            Rule::Until(text) => self.raw(&Value::Null, text)?,
            Rule::Space => {
                let space = self.terminal("/[ \\n]{1,4}/");
                format!("({space})?")
            }
            Rule::Alphanumeric(count) => self.terminal(&format!("/[A-Za-z0-9]{{{count}}}/")),
            Rule::Gemma(schema) => self.gemma(schema)?,
            Rule::Python(schema) => self.python(schema)?,
            Rule::Sequence(rules) => {
                let all = self.expressions(rules)?;
                self.rule(&all.join(" "))
            }
            Rule::Choice(rules) => {
                let all = self.expressions(rules)?;
                self.rule(&all.join(" | "))
            }
            Rule::Optional(rule) => {
                let inner = self.expression(rule)?;
                self.rule(&format!("({inner})?"))
            }
            Rule::Repeat { rule, between, min, max } => {
                let (one, between) = (self.expression(rule)?, self.expression(between)?);
                self.list(&one, &between, *min, *max)
            }
            other => {
                return Err(Error::Invalid(format!("there is no grammar of {other:?}")));
            }
        })
    }

    fn expressions(&mut self, rules: &[Rule]) -> Result<Vec<String>, Error> {
        rules.iter().map(|rule| self.expression(rule)).collect()
    }

    /// From `min` to `max` of one expression, with another between two.
    pub(super) fn list(
        &mut self,
        one: &str,
        between: &str,
        min: usize,
        max: Option<usize>,
    ) -> String {
        let more = match max {
            Some(0) => return "\"\"".to_owned(),
            Some(max) => format!("{{{},{}}}", min.saturating_sub(1), max - 1),
            None if min > 1 => format!("{{{},}}", min - 1),
            None => "*".to_owned(),
        };
        let all = match max {
            Some(1) => one.to_owned(),
            _ => {
                let tail = self.rule(&format!("{between} {one}"));
                format!("{one} {tail}{more}")
            }
        };
        self.rule(&if min == 0 { format!("({all})?") } else { all })
    }

    /// A text, of control tokens where it has their texts.
    pub(super) fn text(&self, text: &str) -> String {
        let part = |piece: Piece<'_>| match piece {
            Piece::Text(text) => Some(literal(text)),
            Piece::Token(id) => id.map(|id| format!("<[{id}]>")),
        };
        let parts: Vec<_> = self.pieces(text).into_iter().filter_map(part).collect();
        match parts.is_empty() {
            true => "\"\"".to_owned(),
            false => parts.join(" "),
        }
    }

    /// The control tokens of a text and what is between them.
    fn pieces<'t>(&self, text: &'t str) -> Vec<Piece<'t>> {
        let mut pieces = Vec::new();
        let mut rest = text;
        loop {
            let found = self
                .controls
                .iter()
                .filter_map(|(control, id)| Some((rest.find(control.as_str())?, control, *id)))
                .min_by_key(|(at, ..)| *at);
            let (before, after) = match found {
                Some((at, control, _)) => (&rest[..at], &rest[at + control.len()..]),
                None => (rest, ""),
            };
            if !before.is_empty() {
                pieces.push(Piece::Text(before));
            }
            let Some((.., id)) = found else { return pieces };
            pieces.push(Piece::Token(id));
            rest = after;
        }
    }

    /// A string without quotation marks that a schema allows (null for any), and its end.
    pub(super) fn raw(&mut self, schema: &Value, end: &str) -> Result<String, Error> {
        let raw = Raw::new(schema)?;
        let pieces = self.pieces(end);
        let marker = regex(end.trim());
        let Some(Piece::Text(text)) = pieces.first() else {
            // a control token ends it, wherever it comes
            let body = raw.bodies("").join(" & ");
            let body = format!("{body} & /(?s:.+)/ & ~/(?s:.*){marker}(?s:.*)/");
            let terminal = self.terminal(&body);
            let optional = if raw.may_be_empty() { "?" } else { "" };
            let end = self.text(end);
            return Ok(self.rule(&format!("({terminal}){optional} {end}")));
        };
        let rest = &end[text.len()..];
        let first = regex(text.trim());
        let body = raw.bodies(&regex(text)).join(" & ");
        let value = self.lazy(&format!("{body} & ~/(?s:.*){first}(?s:.+)/"));
        let rest = self.text(rest);
        Ok(self.rule(&format!("{value} {rest}")))
    }
}

/// A text in quotation marks.
pub(super) fn literal(text: &str) -> String {
    // schemas in a grammar are found by this sign
    Value::from(text).to_string().replace('%', "\\u0025")
}

/// A text as a part of a regular expression between slashes.
pub(super) fn regex(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            c if "\\.+*?()|[]{}^$#&-~/".contains(c) => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use pelton_chat::{FORMATS, Format};
    use pelton_constraint::{Compiler, Constraint, Matcher};
    use pelton_tokenizer::Special;
    use serde_json::json;

    use super::*;
    use crate::built_in::built_in;

    fn tokenizer() -> std::sync::Arc<Tokenizer> {
        Tokenizer::from_metadata(built_in().unwrap().metadata()).unwrap().into()
    }

    fn tools() -> Vec<Value> {
        let days = json!({"type": "integer", "minimum": 1, "maximum": 9});
        vec![json!({"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object", "required": ["city"], "properties": {
                "city": {"type": "string", "maxLength": 8},
                "days": days,
                "exact": {"type": ["boolean", "null"]}}}}})]
    }

    /// Calls as the formats document them, with `CITY` and `DAYS` in the places of values.
    const DOCUMENTED: [(&str, &str); 22] = [
        (
            "hermes",
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"CITY\", \
                    \"days\": DAYS, \"exact\": true}}\n</tool_call>",
        ),
        (
            "qwen3-coder",
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nCITY\n</parameter>\
                         \n<parameter=days>\nDAYS\n</parameter>\n</function>\n</tool_call>",
        ),
        (
            "llama3",
            "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"CITY\", \"days\": DAYS}}",
        ),
        (
            "llama4",
            "<|python_start|>[get_weather(city=\"CITY\", days=DAYS, exact=True)]<|python_end|>",
        ),
        ("mistral", "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"CITY\", \"days\": DAYS}"),
        (
            "mistral-array",
            "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \
                           \"CITY\", \"days\": DAYS}, \"id\": \"a1b2c3d4e\"}]",
        ),
        (
            "deepseek-v3",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\
                         \n```json\n{\"city\": \"CITY\", \"days\": DAYS}\n```<｜tool▁call▁end｜>\
                         <｜tool▁calls▁end｜>",
        ),
        (
            "deepseek-v3.1",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>\
                           {\"city\": \"CITY\", \"days\": DAYS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
        (
            "deepseek-v3.2",
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n\
                           <｜DSML｜parameter name=\"city\" string=\"true\">CITY</｜DSML｜parameter>\n\
                           <｜DSML｜parameter name=\"days\" string=\"false\">DAYS</｜DSML｜parameter>\n\
                           </｜DSML｜invoke>\n</｜DSML｜function_calls>",
        ),
        (
            "harmony",
            "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>\
                     {\"city\": \"CITY\", \"days\": DAYS}<|call|>",
        ),
        (
            "gemma4",
            "<|tool_call>call:get_weather{city:<|\"|>CITY<|\"|>,days:DAYS,exact:null}<tool_call|>",
        ),
        (
            "kimi-k2",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>\
             {\"city\": \"CITY\", \"days\": DAYS, \"exact\": null}<|tool_call_end|><|tool_calls_section_end|>",
        ),
        (
            "seed-oss",
            "<seed:tool_call>\n<function=get_weather>\n<parameter=city>CITY</parameter>\n\
             <parameter=days>DAYS</parameter>\n</function>\n</seed:tool_call>",
        ),
        (
            "minimax-m2",
            "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">CITY</parameter>\n\
             <parameter name=\"days\">DAYS</parameter>\n</invoke>\n</minimax:tool_call>",
        ),
        ("lfm2", "<|tool_call_start|>[get_weather(city=\"CITY\", days=DAYS)]<|tool_call_end|>"),
        (
            "nemotron",
            "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"CITY\", \"days\": DAYS, \
             \"exact\": null}}]</TOOLCALL>",
        ),
        (
            "command",
            "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": \
             {\"city\": \"CITY\", \"days\": DAYS, \"exact\": null}}]<|END_ACTION|>",
        ),
        (
            "phi4-mini",
            "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"CITY\", \"days\": DAYS, \
             \"exact\": null}}]<|/tool_call|>",
        ),
        (
            "granite",
            "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"CITY\", \"days\": DAYS, \
             \"exact\": null}}]",
        ),
        (
            "glm4",
            "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>CITY</arg_value>\n\
                  <arg_key>days</arg_key>\n<arg_value>DAYS</arg_value>\n</tool_call>",
        ),
        (
            "glm4.7",
            "<tool_call>get_weather<arg_key>city</arg_key><arg_value>CITY</arg_value>\
                    <arg_key>days</arg_key><arg_value>DAYS</arg_value></tool_call>",
        ),
        // arguments that are not required are left out
        (
            "qwen3-coder",
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nCITY\n</parameter>\
                         \n</function>\n</tool_call>",
        ),
    ];

    #[test]
    fn documented_calls_are_allowed_and_others_are_not() {
        let (tokenizer, compiler) = (tokenizer(), Compiler::of_bytes().unwrap());
        for format in FORMATS.iter().filter(|format| format.calls.is_some()) {
            let named = |(name, _): &&(&str, &str)| *name == format.name;
            assert!(DOCUMENTED.iter().any(|entry| named(&entry)), "{}", format.name);
        }
        for (name, text) in DOCUMENTED {
            let grammar = Format::named(name).unwrap().grammar(&tools(), false).unwrap().unwrap();
            let grammar = lark(&grammar.calls, &tokenizer).unwrap();
            let matcher = compiler.compile(&Constraint::Lark(grammar.clone())).unwrap();
            let accepts = |city: &str, days: &str| {
                let text = text.replace("CITY", city).replace("DAYS", days);
                matcher.copy().accepts(text.as_bytes()).unwrap_or(false)
            };
            for city in ["Paris", "", "<b>", "]})", "é🙂"] {
                assert!(accepts(city, "2"), "{name}: {city:?}\n{grammar}");
            }
            assert!(!accepts("longer than eight", "2"), "{name}\n{grammar}");
            for days in ["10", "two", "", "\"2\"", "2.5"] {
                assert!(!text.contains("DAYS") || !accepts("Paris", days), "{name}: {days}");
            }
        }
    }

    #[test]
    fn many_tools_are_allowed() {
        let (tokenizer, compiler) = (tokenizer(), Compiler::of_bytes().unwrap());
        let tool = |i: usize| {
            let text = |description: &str| json!({"type": "string", "description": description});
            json!({"type": "function", "function": {"name": format!("server__tool_{i}"), "parameters": {
                "type": "object", "required": ["path", "pattern"], "properties": {
                    "path": text("Where."), "pattern": text(&format!("What number {i}.")),
                    "limit": {"type": "integer"}, "recursive": {"type": "boolean"},
                    "mode": {"type": "string", "enum": ["content", "files", "count"]},
                    "tags": {"type": "array", "items": {"type": "string"}}}}}})
        };
        let tools: Vec<Value> = (0..512).map(tool).collect();
        for format in FORMATS.iter().filter(|format| format.calls.is_some()) {
            let grammar = format.grammar(&tools, true).unwrap().unwrap();
            let grammar = lark(&grammar.calls, &tokenizer).unwrap();
            let matcher = compiler.compile(&Constraint::Lark(grammar));
            let mut matcher = matcher.unwrap_or_else(|error| panic!("{}: {error}", format.name));
            assert!(matcher.mask().is_ok(), "{}", format.name);
        }
        let gemma = Format::named("gemma4").unwrap().grammar(&tools, true).unwrap().unwrap();
        let gemma = lark(&gemma.calls, &tokenizer).unwrap();
        let matcher = compiler.compile(&Constraint::Lark(gemma)).unwrap();
        let call = |i: usize| {
            format!(
                "<|tool_call>call:server__tool_{i}{{path:<|\"|>a<|\"|>,pattern:<|\"|>b<|\"|>}}<tool_call|>"
            )
        };
        assert!(matcher.copy().accepts(call(511).as_bytes()).unwrap());
        assert!(!matcher.copy().accepts(call(512).as_bytes()).unwrap_or(false));
    }

    #[test]
    fn control_tokens_are_named() {
        let tokenizer = tokenizer();
        let compiler = Compiler::new(&tokenizer).unwrap();
        // `<|user|>` and `<|system|>` are control tokens of the vocabulary, `<tool>` is none
        let rule = Rule::Sequence(vec![
            Rule::Text("<tool><|user|>{".into()),
            Rule::Raw { schema: json!({"maxLength": 5}), end: "<|system|>".into() },
            Rule::Until("!<|system|>".into()),
            Rule::Text("}".into()),
        ]);
        let grammar = lark(&rule, &tokenizer).unwrap();
        let matcher = compiler.compile(&Constraint::Lark(grammar.clone())).unwrap();
        let accepts = |mut matcher: Matcher, text: &str, special| {
            let tokens = tokenizer.encode(text, special).unwrap();
            matcher.try_consume(&tokens).unwrap() == tokens.len()
        };
        let text = "<tool><|user|>{abc<|system|>de!<|system|>}";
        assert!(accepts(matcher.copy(), text, Special::Parse), "{grammar}");
        assert!(!accepts(matcher.copy(), text, Special::Plain), "{grammar}");
        let empty = "<tool><|user|>{<|system|>!<|system|>}";
        assert!(accepts(matcher.copy(), empty, Special::Parse), "{grammar}");
        // a forced beginning has the control token too
        let forced = matcher.copy().consume_forced().unwrap();
        let start = tokenizer.encode("<tool><|user|>{", Special::Parse).unwrap();
        assert!(forced.len() >= 2 && start.starts_with(&forced), "{forced:?} {start:?}");
        let long = "<tool><|user|>{abcdef<|system|>!<|system|>}";
        assert!(!accepts(matcher.copy(), long, Special::Parse), "{grammar}");
    }

    #[test]
    fn schemas_in_other_notations() {
        let (tokenizer, compiler) = (tokenizer(), Compiler::of_bytes().unwrap());
        let schema = json!({
            "type": "object",
            "required": ["tree"],
            "properties": {
                "mode": {"enum": ["fast", 2, null]},
                "tree": {"$ref": "#/$defs/node"},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
                "more": {"type": "object", "additionalProperties": {"type": "number"}},
            },
            "$defs": {"node": {"anyOf": [
                {"type": "boolean"},
                {"type": "object", "required": ["next"],
                 "properties": {"next": {"$ref": "#/$defs/node"}}},
            ]}},
        });
        let gemma = (
            Rule::Gemma(schema.clone()),
            [
                ("{tree:true}", true),
                ("{mode:2,tree:{next:{next:false}},tags:[<|\"|>a,b<|\"|>]}", true),
                ("{mode:<|\"|>fast<|\"|>,tree:true,more:{a:1,b:-2.5}}", true),
                ("{mode:null,tree:true,tags:[<|\"|><|\"|>,<|\"|>x<|\"|>],more:{}}", true),
                ("{}", false),
                ("{tree:True}", false),
                ("{tree:true,tags:[]}", false),
                ("{tree:true,tags:[<|\"|>a<|\"|>,<|\"|>a<|\"|>,<|\"|>a<|\"|>]}", false),
                ("{mode:<|\"|>slow<|\"|>,tree:true}", false),
                ("{tree:{next:1}}", false),
            ],
        );
        let python = (
            Rule::Python(schema),
            [
                (r#"{"tree": True}"#, true),
                (r#"{"mode": 2, "tree": {"next": {"next": False}}, "tags": ["a, b"]}"#, true),
                (r#"{"mode": "fast", "tree": True, "more": {"a": 1, "b": -2.5}}"#, true),
                (r#"{"mode": None, "tree": True, "tags": ["", "\"\\\n"], "more": {}}"#, true),
                ("{}", false),
                (r#"{"tree": true}"#, false),
                (r#"{"tree": True, "tags": []}"#, false),
                (r#"{"tree": True, "tags": ["a", "a", "a"]}"#, false),
                (r#"{"mode": "slow", "tree": True}"#, false),
                (r#"{"tree": {"next": 1}}"#, false),
            ],
        );
        for (rule, cases) in [gemma, python] {
            let grammar = lark(&rule, &tokenizer).unwrap();
            let matcher = compiler.compile(&Constraint::Lark(grammar.clone())).unwrap();
            for (text, expected) in cases {
                let accepted = matcher.copy().accepts(text.as_bytes()).unwrap_or(false);
                assert_eq!(accepted, expected, "{text}\n{grammar}");
            }
        }
        for (bad, word) in [
            (json!({"type": "array", "contains": {}}), "\"contains\""),
            (json!({"type": "array", "minItems": 1e9 as u64}), "\"minItems\""),
            (json!({"not": {}}), "\"not\""),
            (json!({"$ref": "#/nowhere"}), "#/nowhere"),
            (json!({"type": "text"}), "\"text\""),
            (json!({"type": "object", "required": ["x"]}), "\"x\""),
            (json!({"enum": []}), "no value"),
        ] {
            for rule in [Rule::Gemma(bad.clone()), Rule::Python(bad.clone())] {
                let said = lark(&rule, &tokenizer).unwrap_err().to_string();
                assert!(said.contains(word), "{said}");
            }
        }
        // the grammars of recursive and of empty schemas
        for schema in
            [json!({}), json!({"type": "object"}), json!({"items": {"$ref": "#"}, "type": "array"})]
        {
            for rule in [Rule::Gemma(schema.clone()), Rule::Python(schema.clone())] {
                let grammar = lark(&rule, &tokenizer).unwrap();
                compiler.compile(&Constraint::Lark(grammar)).unwrap();
            }
        }
    }
}
