//! Random templates that build values which share their parts and walk them, within bounds of
//! memory and time.
//!
//! `PELTON_FUZZ_RUNS` is the number of templates, `PELTON_FUZZ_SEED` the seed of the first.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

use std::time::Duration;

use pelton_chat::{Chat, Clock, Error, Limits, Message, Template};
use pelton_testing::Random;
use pelton_watchdog::{Budget, Counting, within};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// The time of the limits of a rendering, and that of a walk of a value of the greatest size.
const BUDGET: Budget = Budget { bytes: 512 << 20, time: Duration::from_millis(1500) };

const VARIABLES: [&str; 6] = ["a", "b", "c", "ns.x", "ns.y", "messages"];

/// Expressions; `@` stands for another.
const EXPRESSIONS: [&str; 84] = [
    "[@, @]",
    "(@, @)",
    "{'k': @, 'l': @}",
    "{@: @}",
    "[@] * 9",
    "[@] + [@]",
    "@ + @",
    "@ ~ @",
    "@ * 7",
    "dict(k=@, l=@)",
    "dict.fromkeys(@, @)",
    "dict(@)",
    "range(99)",
    "@[1:]",
    "@[::-1]",
    "@[0]",
    "@[1:][0]",
    "@[@]",
    "@ == @",
    "@ != @",
    "@ < @",
    "@ <= @ < @",
    "@ in @",
    "@ not in @",
    "@ and @",
    "@ or @",
    "not @",
    "(@ if @ else @)",
    "@ is eq @",
    "@ is in(@)",
    "@ is iterable",
    "@ is startingwith(@)",
    "@ | length",
    "@ | tojson",
    "@ | tojson(indent=2)",
    "@ | string",
    "@ | pprint",
    "@ | join",
    "@ | join(@)",
    "@ | sort",
    "@ | unique",
    "@ | list",
    "@ | reverse",
    "@ | first",
    "@ | last",
    "@ | min",
    "@ | max",
    "@ | sum",
    "@ | sum(start=[])",
    "@ | items | list",
    "@ | dictsort",
    "@ | dictsort(by='value')",
    "@ | groupby(0)",
    "@ | groupby('k')",
    "@ | batch(9, @)",
    "@ | slice(9)",
    "@ | zip(@)",
    "@ | map('string')",
    "@ | map('list')",
    "@ | map(attribute=0)",
    "@ | map('default', @)",
    "@ | select('eq', @)",
    "@ | select('in', @)",
    "@ | reject('==', @)",
    "@ | selectattr('k', 'eq', @)",
    "@ | default(@)",
    "@ | upper",
    "@ | trim",
    "@ | replace('1', @)",
    "@ | indent(9)",
    "'%s%s' | format(@, @)",
    "'{}{}'.format(@, @)",
    "','.join(@)",
    "@.items()",
    "@.keys()",
    "@.values()",
    "@.get(@)",
    "@.index(@)",
    "@.count(@)",
    "@.split(',')",
    "@.replace('1', @)",
    "f(@)",
    "dict(*@, **@)",
    "loop.changed(@)",
];

struct Writer {
    random: Random,
}

impl Writer {
    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.random.below(of.len())]
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.below(4) == 0 {
            return match self.random.below(6) {
                0 => self.one(&["1", "'x'", "[]", "'xy1' * 99", "none", "2.5"]).to_owned(),
                _ => self.one(&VARIABLES).to_owned(),
            };
        }
        let mut text = String::new();
        let form = self.one(&EXPRESSIONS);
        for (i, part) in form.split('@').enumerate() {
            if i > 0 {
                text += &format!("({})", self.expression(depth - 1));
            }
            text += part;
        }
        text
    }

    fn statement(&mut self, depth: usize) -> String {
        let value = self.expression(2);
        // most values are shared again and again
        let double = |name: &str, form: &str| {
            format!("{{% for i in range({}) %}}{{% set {name} = {form} %}}{{% endfor %}}", 40)
        };
        match self.random.below(if depth > 0 { 12 } else { 8 }) {
            0 | 1 => format!("{{% set {} = {value} %}}", self.one(&["a", "b", "c"])),
            2 => format!("{{% set {} = {value} %}}", self.one(&["ns.x", "ns.y"])),
            3 | 4 => {
                let form = self.one(&[
                    "[ns.x, ns.x]",
                    "(ns.x, ns.x)",
                    "{'k': ns.x, 'l': ns.x}",
                    "[ns.x, ns.y]",
                    "[ns.x] * 3",
                    "dict(k=ns.x, l=ns.y)",
                    "ns.x + ns.x",
                    "ns.x ~ ns.x",
                    "[ns.x, ns.x] | map('list') | list",
                ]);
                double(self.one(&["ns.x", "ns.y"]), form)
            }
            5 | 6 => format!("{{{{ {value} }}}}"),
            7 => format!("{{% set a, b = {value}, {} %}}", self.expression(1)),
            8 | 9 => {
                let body = self.body(depth - 1);
                let filter = if self.random.below(3) == 0 {
                    format!(" if {}", self.expression(1))
                } else {
                    String::new()
                };
                format!(
                    "{{% for {} in ({value}){filter} %}}{body}{{% endfor %}}",
                    self.one(&["a", "b", "c", "a, b"])
                )
            }
            10 => format!("{{% if {value} %}}{}{{% endif %}}", self.body(depth - 1)),
            _ => format!("{{% set b %}}{}{{% endset %}}", self.body(depth - 1)),
        }
    }

    fn body(&mut self, depth: usize) -> String {
        (0..1 + self.random.below(5)).map(|_| self.statement(depth)).collect()
    }

    fn template(&mut self) -> String {
        let doublings = self.random.below(22);
        let form = self.one(&[
            "[ns.x, ns.x]",
            "[ns.x, 1, ns.x]",
            "{'k': ns.x, 'l': ns.x}",
            "(ns.x, ns.x)",
        ]);
        format!(
            "{{% macro f(c) %}}{}{{% endmacro %}}{{% set ns = namespace(x=[1], y='x') %}}\
             {{% for i in range({doublings}) %}}{{% set ns.x = {form} %}}{{% endfor %}}\
             {{% for j in range({}) %}}{}{{% endfor %}}",
            self.statement(1).replace("f(", "("),
            1 + self.random.below(40),
            self.body(2),
        )
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn random_templates_stay_within_bounds() {
    let runs = number("PELTON_FUZZ_RUNS").unwrap_or(500);
    let seed = number("PELTON_FUZZ_SEED").unwrap_or(1);
    let mut limits = Limits::default();
    (limits.fuel, limits.output, limits.text) = (1_000_000, 4 << 20, 64 << 20);
    limits.time = Duration::from_millis(50);
    let (mut rendered, mut limited, mut refused) = (0, 0, 0);
    for i in 0..runs {
        let source = Writer { random: Random::new(seed + i) }.template();
        let chat = {
            let mut chat = Chat::new(vec![Message::new("user", "x")]);
            chat.adapt = i % 8 == 0;
            chat
        };
        let name = format!("seed {}: {source}", seed + i);
        let result = within(BUDGET, &name, || {
            Template::with(&source, Clock::Fixed(0), limits)
                .and_then(|template| template.render(&chat))
        });
        match result {
            Ok(_) => rendered += 1,
            Err(error) => {
                let sentence = error.to_string();
                assert!(!sentence.contains('\n'), "{sentence}: {name}");
                match error {
                    Error::Limit { .. } => limited += 1,
                    Error::Syntax { .. } => panic!("{sentence}: {name}"),
                    _ => refused += 1,
                }
            }
        }
    }
    println!("{rendered} rendered, {limited} limited, {refused} refused");
    assert!(limited * 20 > runs, "{limited} of {runs} meet a limit");
}
