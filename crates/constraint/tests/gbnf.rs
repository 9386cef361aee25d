//! GBNF grammars that are refused, and limits of constraints.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

use std::time::{Duration, Instant};

use pelton_constraint::{Compiler, Constraint, Error, gbnf_to_lark};

#[test]
fn unsound_grammars_are_refused_with_their_line() {
    for (grammar, line, part) in [
        ("", 1, "'root' is not defined"),
        ("root ::= a\na ::= b", 2, "'b' is not defined"),
        ("root := \"a\"", 1, "expected '::='"),
        ("root ::= \"a", 1, "expected '\"'"),
        ("root ::= [a", 1, "expected ']'"),
        ("root ::= [z-a]", 1, "ends before its beginning"),
        ("root ::= []", 1, "empty class"),
        ("\nroot ::= (\"a\"", 2, "expected ')'"),
        ("root ::= \"a\"{5,2}", 1, "at most 2"),
        ("root ::= \"a\"{99999}", 1, "expected at most 2000"),
        ("root ::= \"\\q\"", 1, "unknown escape"),
        ("root ::= \"\\ud800\"", 1, "hexadecimal"),
        ("root ::= <", 1, "expected a token"),
        ("root ::= \"a\" )", 1, "expected the end of the rule"),
    ] {
        match gbnf_to_lark(grammar) {
            Err(Error::Gbnf { line: found, reason }) => {
                assert!(found == line && reason.contains(part), "{grammar:?}: {found}: {reason}");
            }
            other => panic!("{grammar:?}: {other:?}"),
        }
    }
    let deep = format!("root ::= {}\"a\"{}", "(".repeat(5000), ")".repeat(5000));
    assert!(gbnf_to_lark(&deep).is_err());
}

#[test]
fn rules_that_recur_and_rules_that_do_not() {
    let compiler = Compiler::of_bytes().unwrap();
    for (grammar, good, bad) in [
        (
            "root ::= [^a-c\\n]+ | \"\\x41\\u00e9\\U0001F600\"",
            &["xyz", "A\u{e9}\u{1F600}"][..],
            &["a"][..],
        ),
        ("root ::= \"(\" root? \")\" # comment\n", &["()", "((()))"], &["(()"]),
        (
            "root ::=\n  item (\",\" item)*\nitem ::= \"[\" root \"]\" | [0-9]+",
            &["1", "1,[2,3],[[4]]"],
            &["[1", ","],
        ),
        ("root ::= . . \"!\"?", &["ab", "\n\u{1F600}!"], &["a", "abc"]),
        ("root ::= (\"a\" | \"\") \"b\"", &["ab", "b"], &["a"]),
        ("root ::= \"\\\"\\\\\\[\\]\"", &["\"\\[]"], &["\""]),
    ] {
        let matcher = compiler.compile(&Constraint::Gbnf(grammar.into())).unwrap();
        for (texts, expected) in [(good, true), (bad, false)] {
            for text in texts {
                let accepts = matcher.copy().accepts(text.as_bytes()).unwrap();
                assert_eq!(accepts, expected, "{grammar}: {text:?}");
            }
        }
    }
}

/// Constraints of strangers end in a refusal or in a matcher, in a bounded time.
#[test]
fn hostile_constraints_take_a_bounded_time() {
    let compiler = Compiler::of_bytes().unwrap();
    let doubling: String = (1..60).map(|i| format!("r{i} ::= r{} r{}\n", i - 1, i - 1)).collect();
    let nested = (0..90).fold("{}".to_owned(), |schema, _| format!("{{\"items\":{schema}}}"));
    for constraint in [
        Constraint::Gbnf(format!("root ::= r59\nr0 ::= \"a\"\n{doubling}")),
        Constraint::Regex("(a|b|c){1000}{1000}".into()),
        Constraint::Regex("(.*a){60}(x|y)*".into()),
        Constraint::Regex(format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000))),
        Constraint::Lark(format!("start: {}\"a\"{}", "(".repeat(100_000), ")".repeat(100_000))),
        Constraint::JsonSchema(serde_json::from_str(&nested).unwrap()),
        Constraint::JsonSchema(serde_json::json!({"type": "string", "maxLength": 1_000_000_000})),
        Constraint::JsonSchema(serde_json::json!({"minItems": 1_000_000_000, "type": "array"})),
        Constraint::JsonSchema(serde_json::json!({"$ref": "#"})),
    ] {
        let begun = Instant::now();
        if let Ok(mut matcher) = compiler.compile(&constraint) {
            for _ in 0..5 {
                let Ok(mask) = matcher.mask() else { break };
                let word = mask.iter().position(|&word| word != 0).unwrap();
                if matcher.consume((word * 32) as u32 + mask[word].trailing_zeros()).is_err() {
                    break;
                }
            }
        }
        let name = format!("{constraint:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", &name[..name.len().min(80)]);
    }
}
