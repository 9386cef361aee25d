//! From rules to Lark's text.

use std::fmt::Write;

use super::{
    endless::has_endless,
    rules::{Part, Rules},
};

/// Writes a grammar.
pub(super) fn write(rules: &Rules) -> String {
    let mut writer = Writer { regular: regular(rules), joined: Vec::new() };
    // the compiler would follow a text that is forced without an end to its limits in one step
    let options = if has_endless(rules) { "%llguidance {\"no_forcing\": true}\n" } else { "" };
    let mut text = format!("{options}start: {}\n", writer.name(0));
    for (index, (part, _)) in rules.rules.iter().enumerate() {
        let name = writer.name(index);
        let body = match writer.regular[index] {
            true => writer.terminal(part),
            false => writer.rule(part),
        };
        // a terminal that is never used costs nothing
        let _ = writeln!(text, "{name}: {body}");
    }
    for (index, body) in writer.joined.iter().enumerate() {
        let _ = writeln!(text, "J{index}: {body}");
    }
    text
}

/// For each rule whether it is without recursion and without tokens, so that a lexer can follow it.
fn regular(rules: &Rules) -> Vec<bool> {
    let count = rules.rules.len();
    let (mut regular, mut missing) = (vec![false; count], vec![0usize; count]);
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut found = Vec::new();
    for (index, (part, _)) in rules.rules.iter().enumerate() {
        let mut used = Vec::new();
        if !references(part, &mut used) {
            // rules with tokens lack something for ever
            missing[index] = 1;
        }
        missing[index] += used.len();
        if missing[index] == 0 {
            found.push(index);
        }
        for rule in used {
            users[rule].push(index);
        }
    }
    while let Some(index) = found.pop() {
        regular[index] = true;
        for &user in &users[index] {
            missing[user] -= 1;
            if missing[user] == 0 {
                found.push(user);
            }
        }
    }
    regular
}

/// Collects the rules that a part refers to, up to its first token. Returns whether it has none.
fn references(part: &Part, rules: &mut Vec<usize>) -> bool {
    match part {
        Part::Text(_) | Part::Class { .. } => true,
        Part::Token(_) => false,
        Part::Rule(index) => {
            rules.push(*index);
            true
        }
        Part::Sequence(all) | Part::Choice(all) => all.iter().all(|part| references(part, rules)),
        Part::Repeat { part, .. } => references(part, rules),
    }
}

fn is_regular(part: &Part, rules: &[bool]) -> bool {
    let mut used = Vec::new();
    references(part, &mut used) && used.iter().all(|&rule| rules[rule])
}

struct Writer {
    regular: Vec<bool>,
    /// Terminals of repetitions in rules.
    joined: Vec<String>,
}

impl Writer {
    fn name(&self, index: usize) -> String {
        match self.regular[index] {
            true => format!("R{index}"),
            false => format!("r{index}"),
        }
    }

    /// A part of a terminal.
    fn terminal(&self, part: &Part) -> String {
        match part {
            Part::Text(text) => string(text),
            Part::Class { negated, ranges } => class(*negated, ranges),
            Part::Rule(index) => self.name(*index),
            Part::Token(token) => token.clone(),
            Part::Sequence(all) if all.is_empty() => string(""),
            Part::Sequence(all) => {
                let all: Vec<String> = all.iter().map(|part| self.terminal(part)).collect();
                format!("({})", all.join(" "))
            }
            Part::Choice(all) => {
                let all: Vec<String> = all.iter().map(|part| self.terminal(part)).collect();
                format!("({})", all.join(" | "))
            }
            Part::Repeat { part, min, max } => repeat(&self.terminal(part), *min, *max),
        }
    }

    /// A part of a rule.
    fn rule(&mut self, part: &Part) -> String {
        match part {
            Part::Rule(index) => self.name(*index),
            Part::Token(token) => token.clone(),
            Part::Text(_) | Part::Class { .. } => self.terminal(part),
            // one terminal for all characters of a repetition
            Part::Repeat { .. } if is_regular(part, &self.regular) => {
                self.joined.push(self.terminal(part));
                format!("J{}", self.joined.len() - 1)
            }
            Part::Sequence(all) if all.is_empty() => string(""),
            Part::Sequence(all) => {
                let all: Vec<String> = all.iter().map(|part| self.rule(part)).collect();
                format!("({})", all.join(" "))
            }
            Part::Choice(all) => {
                let all: Vec<String> = all.iter().map(|part| self.rule(part)).collect();
                format!("({})", all.join(" | "))
            }
            Part::Repeat { part, min, max } => repeat(&self.rule(part), *min, *max),
        }
    }
}

/// A repetition; one of none is the empty text.
fn repeat(part: &str, min: usize, max: Option<usize>) -> String {
    match (min, max) {
        (_, Some(0)) => string(""),
        (0, None) => format!("({part})*"),
        (1, None) => format!("({part})+"),
        (0, Some(1)) => format!("({part})?"),
        (min, None) => format!("({part}){{{min},}}"),
        (min, Some(max)) => format!("({part}){{{min},{max}}}"),
    }
}

/// A string with every character but letters and digits escaped.
fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out.push('"');
    out
}

/// A class of characters as a regular expression.
fn class(negated: bool, ranges: &[(char, char)]) -> String {
    if ranges.is_empty() {
        return "/[\\x{0}-\\x{10FFFF}]/".to_owned();
    }
    let mut out = String::from(if negated { "/[^" } else { "/[" });
    for &(first, last) in ranges {
        let _ = write!(out, "\\x{{{:X}}}-\\x{{{:X}}}", first as u32, last as u32);
    }
    out.push_str("]/");
    out
}
