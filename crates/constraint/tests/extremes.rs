//! Random constraints with extreme numbers, within bounds of memory and time. Which numbers a
//! schema allows is compared with arithmetic of integers.
//!
//! `PELTON_FUZZ_RUNS` is the number of constraints, `PELTON_FUZZ_SEED` the seed of the first.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

use std::time::Duration;

use pelton_constraint::{Compiler, Constraint, Error};
use pelton_testing::Random;
use pelton_watchdog::{Budget, Counting, within};
use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// The documented memory of a compilation, and the time of some masks and steps on the caller's
/// thread.
const BUDGET: Budget = Budget { bytes: 256 << 20, time: Duration::from_millis(500) };
/// The same with steps that use up their documented limit, a second.
const STEPS: Budget = Budget { bytes: 256 << 20, time: Duration::from_millis(2500) };

/// Numbers at which arithmetic overflows, rounds or ends.
const NUMBERS: [&str; 40] = [
    "0",
    "-0",
    "-0.0",
    "1",
    "-1",
    "2",
    "7",
    "10",
    "-10",
    "99",
    "100",
    "0.5",
    "-0.5",
    "0.1",
    "0.07",
    "1.5",
    "-2.5",
    "1e-7",
    "1e-308",
    "-1e-308",
    "5e-324",
    "1e308",
    "-1e308",
    "1.0",
    "1e2",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
    "4294967295",
    "4294967296",
];
/// The values of units are so many integers.
const UNIT: i128 = 2_000_000_000;

/// A number as an integer: units of half a billionth. Those that are too small are just beside
/// zero, those that are too large beyond all others.
fn exact(text: &str) -> i128 {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    match text {
        "1e-308" | "5e-324" => return sign,
        "1e308" => return sign * (i128::MAX / 4),
        _ => {}
    }
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent = 9 + exponent.parse::<i32>().unwrap() - fraction.len() as i32;
    let digits: i128 = format!("{whole}{fraction}").parse().unwrap();
    sign * 2 * digits * 10_i128.pow(u32::try_from(exponent).unwrap())
}

/// A schema of numbers, and what it means.
#[derive(Debug)]
struct Numbers {
    kind: Option<&'static str>,
    keywords: Vec<(&'static str, &'static str)>,
    constants: Option<Vec<&'static str>>,
}

impl Numbers {
    fn new(random: &mut Random) -> Self {
        let one = |random: &mut Random| NUMBERS[random.below(NUMBERS.len())];
        let kind = [Some("integer"), Some("number"), None][random.below(3)];
        let names = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
        let mut keywords: Vec<_> = names.into_iter().map(|name| (name, one(random))).collect();
        let constants = (random.below(3) == 0)
            .then(|| (0..1 + random.below(4)).map(|_| one(random)).collect::<Vec<_>>());
        let rare = if constants.is_some() { 5 } else { 3 };
        keywords.retain(|_| random.below(rare) == 0);
        Self { kind, keywords, constants }
    }

    fn text(&self) -> String {
        let mut all: Vec<String> =
            self.keywords.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        all.extend(self.kind.map(|kind| format!("\"type\":\"{kind}\"")));
        all.extend(self.constants.as_ref().map(|all| format!("\"enum\":[{}]", all.join(","))));
        format!("{{{}}}", all.join(","))
    }

    fn allows(&self, text: &str) -> bool {
        let value = exact(text);
        let is_integer = self.kind != Some("integer") || value % UNIT == 0;
        let constants = self.constants.as_ref();
        is_integer
            && constants.is_none_or(|all| all.iter().any(|other| exact(other) == value))
            && self.keywords.iter().all(|(name, bound)| {
                let bound = exact(bound);
                match *name {
                    "minimum" => value >= bound,
                    "maximum" => value <= bound,
                    "exclusiveMinimum" => value > bound,
                    "exclusiveMaximum" => value < bound,
                    _ => bound != 0 && value % bound == 0,
                }
            })
    }

    /// Texts near its numbers.
    fn candidates(&self, random: &mut Random) -> Vec<String> {
        let numbers = self.keywords.iter().map(|(_, value)| *value);
        let numbers = numbers.chain(self.constants.iter().flatten().copied());
        let mut all: Vec<String> = vec!["0".into(), "1".into(), "-1".into(), "0.5".into()];
        let more = |_: usize| NUMBERS[random.below(NUMBERS.len())];
        for number in numbers.collect::<Vec<_>>().into_iter().chain((0..4).map(more)) {
            if number.contains(['e', '-']) && !number.starts_with('-') || number.contains("e3") {
                continue;
            }
            let value = exact(number);
            if value % UNIT == 0 {
                let value = value / UNIT;
                all.extend([value - 1, value, value + 1, -value].map(|value| value.to_string()));
            } else if !number.contains('e') {
                all.push(number.to_owned());
                all.push(format!("{number}1"));
            }
        }
        all.retain(|text| !["-0", "-0.0"].contains(&text.as_str()));
        all
    }
}

/// A place for a schema, and the text around its values.
fn place(
    schema: &str,
    is_typed: bool,
    random: &mut Random,
) -> (String, &'static str, &'static str) {
    match random.below(6) {
        0 => (format!("{{\"type\":\"array\",\"items\":{schema}}}"), "[", "]"),
        1 => (
            format!(
                "{{\"type\":\"object\",\"properties\":{{\"a\":{schema}}},\"required\":[\"a\"]}}"
            ),
            "{\"a\":",
            "}",
        ),
        2 => (format!("{{\"anyOf\":[{schema},{{\"type\":\"null\"}}],\"default\":null}}"), "", ""),
        3 => (format!("{{\"$ref\":\"#/$defs/n\",\"$defs\":{{\"n\":{schema}}}}}"), "", ""),
        4 if is_typed => (format!("{{\"oneOf\":[{schema},{{\"const\":\"x\"}}]}}"), "", ""),
        _ => (schema.to_owned(), "", ""),
    }
}

/// Compiles a constraint within the budget and takes some steps.
fn follow(compiler: &Compiler, constraint: &Constraint, name: &str) {
    within(STEPS, name, || {
        let outcome = compiler.compile(constraint);
        assert!(!matches!(outcome, Err(Error::Slow | Error::Busy)), "{name}: {outcome:?}");
        let Ok(mut matcher) = outcome else { return };
        for i in 0..6 {
            let Ok(mask) = matcher.mask() else { return };
            let allowed: Vec<u32> = (0..mask.len() as u32 * 32)
                .filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1)
                .collect();
            if matcher.consume(allowed[i * 7 % allowed.len()]).is_err() || matcher.is_stopped() {
                return;
            }
        }
    });
}

/// A schema of any keywords, deep or wide.
fn schema(random: &mut Random, depth: usize) -> Value {
    let number = |random: &mut Random| loop {
        let text = NUMBERS[random.below(NUMBERS.len())];
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            return value;
        }
    };
    const COUNTS: [&str; 11] = [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ];
    let mut map = Map::new();
    for _ in 0..random.below(4) {
        map.insert(COUNTS[random.below(COUNTS.len())].to_owned(), number(random));
    }
    let nested = |random: &mut Random| match depth {
        0 => number(random),
        depth => schema(random, depth - 1),
    };
    let list = |random: &mut Random| -> Value {
        (0..1 + random.below(3))
            .map(|_| if depth == 0 { json!({}) } else { schema(random, depth - 1) })
            .collect()
    };
    match random.below(10) {
        0 => drop(map.insert("const".into(), json!({ "a": [number(random)] }))),
        1 => drop(map.insert("enum".into(), json!([number(random), [number(random)], "x"]))),
        2 => drop(map.insert("allOf".into(), list(random))),
        3 => drop(map.insert("anyOf".into(), list(random))),
        4 => drop(map.insert("oneOf".into(), list(random))),
        5 => drop(map.insert("prefixItems".into(), list(random))),
        6 => drop(
            map.insert("properties".into(), json!({ "a": nested(random), "b": nested(random) })),
        ),
        7 => {
            drop(map.insert("items".into(), if depth == 0 { json!(true) } else { nested(random) }))
        }
        8 => drop(map.insert("$ref".into(), "#".into())),
        _ => drop(map.insert("type".into(), json!(["integer", "string", "array", "object"]))),
    }
    Value::Object(map)
}

/// A grammar of repetitions of repetitions.
fn repeated(random: &mut Random) -> String {
    const COUNTS: [&str; 12] = [
        "0",
        "1",
        "2",
        "10",
        "1000",
        "2000",
        "2001",
        "65536",
        "2147483647",
        "4294967295",
        "4294967296",
        "18446744073709551616",
    ];
    let count = |random: &mut Random| COUNTS[random.below(COUNTS.len())];
    let mut text = ["\"a\"", "[a-z]", "(\"a\" | \"bc\")", "\"\""][random.below(4)].to_owned();
    for _ in 0..1 + random.below(4) {
        let (a, b) = (count(random), count(random));
        let suffix =
            [format!("{{{a}}}"), format!("{{{a},}}"), format!("{{{a},{b}}}"), "*".to_owned()];
        text = format!("({text}){}", suffix[random.below(4)]);
    }
    text
}

fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn extreme_numbers_are_exact_and_bounded() {
    let (runs, seed) = (environment("PELTON_FUZZ_RUNS", 3000), environment("PELTON_FUZZ_SEED", 1));
    let compiler = Compiler::of_bytes().unwrap();
    let (mut compiled, mut texts) = (0_u64, 0_u64);
    for run in 0..runs {
        let mut random = Random::new(seed.wrapping_add(run));
        match random.below(40) {
            0..4 => {
                let schema = schema(&mut random, 4);
                follow(&compiler, &Constraint::JsonSchema(schema.clone()), &schema.to_string());
                continue;
            }
            4 => {
                let text = repeated(&mut random);
                let gbnf = format!("root ::= {text}\n");
                follow(&compiler, &Constraint::Gbnf(gbnf), &text);
                follow(
                    &compiler,
                    &Constraint::Lark(format!("start: {}\n", text.replace("[a-z]", "/[a-z]/"))),
                    &text,
                );
                let regex = text.replace(['"', ' '], "");
                follow(&compiler, &Constraint::Regex(regex), &text);
                continue;
            }
            _ => {}
        }
        let numbers = Numbers::new(&mut random);
        let is_typed = numbers.kind.is_some() || numbers.constants.is_some();
        let (text, before, after) = place(&numbers.text(), is_typed, &mut random);
        let Ok(constraint) = Constraint::json_schema(&text) else { continue };
        let outcome = within(BUDGET, &text, || compiler.compile(&constraint));
        assert!(!matches!(outcome, Err(Error::Slow | Error::Busy)), "{text}: {outcome:?}");
        let candidates = numbers.candidates(&mut random);
        let is_allowed = |number: &String| numbers.allows(number);
        let Ok(matcher) = outcome else {
            let refused = outcome.unwrap_err().to_string();
            let is_bound = refused.contains("multipleOf") || refused.contains("digits");
            let good = candidates.iter().find(|number| is_allowed(number));
            assert!(is_bound || good.is_none(), "{text} allows {good:?}: {refused}");
            continue;
        };
        compiled += 1;
        for number in &candidates {
            texts += 1;
            let value = format!("{before}{number}{after}");
            let accepts = within(BUDGET, &text, || matcher.copy().accepts(value.as_bytes()));
            assert_eq!(
                accepts.unwrap_or(false),
                is_allowed(number),
                "seed {run}: {text}: {number}"
            );
        }
    }
    println!("{compiled} of {runs} schemas of numbers compiled, {texts} texts compared");
    assert!(compiled * 5 > runs, "{compiled} of {runs}");
}
