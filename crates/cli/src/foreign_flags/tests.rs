//! Tests of the tables with command lines of the programs' own documentation.

use std::{collections::BTreeMap, ffi::OsString};

use clap::CommandFactory;

use super::{
    own::Own,
    programs::PEERS,
    rewrite::rewritten,
    table::{Fate, Row, Takes},
};
use crate::Cli;

/// The command lines: a verdict, the line, and Pelton's words for it.
/// `tests/fixtures/make_peers.py` writes the lines alone; PELTON_WRITE=1 adds what the tables say,
/// which a reader then compares with the documentation.
const LINES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/peers.txt");

/// The least shares of lines that are taken, in percent.
const LEAST: &[(&str, usize)] = &[
    ("llama-server", 85),
    ("llama-server's environment", 85),
    ("whisper-cli", 85),
    ("whisper", 85),
    ("ollama", 90),
    ("vllm serve", 60),
];

/// The words of a line as a shell has them, where a part of a word may stand in single quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// A verdict, and the words for the parser or the first line of an error.
fn verdict(line: &str) -> (&'static str, String) {
    let mut all = words(line);
    let mut variables = BTreeMap::new();
    while let Some((name, value)) = all.first().and_then(|word| word.split_once('=')) {
        variables.insert(name.to_owned(), OsString::from(value));
        all.remove(0);
    }
    all.insert(0, "pelton".to_owned());
    let words = all.into_iter().map(OsString::from).collect();
    let command = Cli::command();
    let line = rewritten(words, &command, &|name| variables.get(name).cloned());
    if let Some(problem) = line.problems.first() {
        let hint = problem.hint.as_deref().unwrap_or_default();
        return ("refused", format!("{}; {hint}", problem.error).trim_end_matches("; ").to_owned());
    }
    let shown: Vec<_> = line.words.iter().skip(1).map(|word| word.to_string_lossy()).collect();
    let shown = shown.join(" ");
    if let Err(error) = command.try_get_matches_from(&line.words) {
        let text = error.to_string();
        return ("refused", text.lines().next().unwrap_or_default().to_owned());
    }
    (if line.is_noted() { "noted" } else { "accepted" }, shown)
}

#[test]
fn lines_of_peers() {
    let found = std::fs::read_to_string(LINES).unwrap();
    let mut text = String::new();
    let mut group = "";
    let mut shares: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for line in found.lines() {
        if let Some(name) = line.strip_prefix('[') {
            group = name.trim_end_matches(']');
            text.push_str(&format!("[{group}]\n"));
            continue;
        }
        let typed = line.split('\t').nth(1).unwrap();
        let (verdict, becomes) = verdict(typed);
        let at = ["accepted", "noted", "refused"].iter().position(|one| *one == verdict).unwrap();
        shares.entry(group).or_default()[at] += 1;
        text.push_str(&format!("{verdict}\t{typed}\t{becomes}\n"));
    }
    if std::env::var_os("PELTON_WRITE").is_some() {
        std::fs::write(LINES, &text).unwrap();
    }
    let found = std::fs::read_to_string(LINES).unwrap();
    let changed = found.lines().zip(text.lines()).find(|(one, other)| one != other);
    assert!(text == found, "{changed:?}: PELTON_WRITE=1 writes the verdicts");
    let all: usize = shares.values().flatten().sum();
    assert!(all >= 1000, "{all} lines");
    for (group, [accepted, noted, refused]) in &shares {
        let sum = accepted + noted + refused;
        let share = 100 * (accepted + noted) / sum;
        println!(
            "{group}: {sum} lines, {accepted} accepted, {noted} noted, {refused} refused: {share} %"
        );
        if let Some((_, least)) = LEAST.iter().find(|(name, _)| name == group) {
            assert!(share >= *least, "{group}: {share} %, expected {least} %");
        }
    }
}

/// The options in the sentences of a table, as words that begin with `--`, or with a
/// hyphen and a letter.
fn options(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let words = text.split(|c: char| !is_part(c));
    words
        .filter(|word| {
            let letters = word.trim_start_matches('-');
            (word.starts_with("--") || word.starts_with('-') && letters.len() == 1)
                && !letters.is_empty()
        })
        .map(str::to_owned)
        .collect()
}

/// The command that a sentence names in backquotes before an option; the table's own without one.
fn named(sentence: &str, command: &str) -> Vec<String> {
    let mut all = vec![command.to_owned()];
    for part in sentence.split("`pelton ").skip(1) {
        all.extend(part.split([' ', '`']).next().map(str::to_owned));
    }
    for name in ["`pelton run` and `pelton chat`", "run, chat and serve"] {
        if sentence.contains(name) {
            all.extend(["run", "chat", "serve"].map(str::to_owned));
        }
    }
    all
}

/// Each option that a hint or a reason names exists on the command, or is one of the program's own.
#[test]
fn hints_are_true() {
    let root = Cli::command();
    let mut wrong = Vec::new();
    for peer in PEERS {
        for command in peer.commands {
            for row in peer.tables.iter().flat_map(|table| table.iter()) {
                let Row { names, fate, .. } = row;
                let (Fate::Refused(text) | Fate::Noted(text)) = fate else { continue };
                // another row may stand before it
                let first =
                    names.split(' ').next().and_then(|name| super::programs::row(command, name));
                if first.is_some_and(|first| !std::ptr::eq(first, row)) {
                    continue;
                }
                let owns: Vec<Own> = named(text, command)
                    .iter()
                    .filter_map(|name| root.find_subcommand(name))
                    .map(|found| Own::of(&[&root, found]))
                    .collect();
                for option in options(text) {
                    let is_theirs = super::programs::row(command, &option).is_some();
                    if !is_theirs && !owns.iter().any(|own| own.has(&option)) {
                        wrong.push(format!("{command} {names}: {option} in {text:?}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An option becomes one that its command has, for one command of the table at least.
#[test]
fn options_become_options_that_exist() {
    let root = Cli::command();
    for peer in PEERS {
        let owns: Vec<Own> = peer
            .commands
            .iter()
            .map(|command| Own::of(&[&root, root.find_subcommand(command).unwrap()]))
            .collect();
        for row in peer.tables.iter().flat_map(|table| table.iter()) {
            let (Fate::Is(own) | Fate::Flag(own)) = row.fate else { continue };
            for word in own.split(' ') {
                let name = word.split('=').next().unwrap();
                let anywhere = PEERS
                    .iter()
                    .filter(|other| {
                        other.tables.iter().any(|table| table.iter().any(|r| r.names == row.names))
                    })
                    .flat_map(|other| other.commands)
                    .any(|command| {
                        Own::of(&[&root, root.find_subcommand(command).unwrap()]).has(name)
                    });
                assert!(
                    owns.iter().any(|own| own.has(name)) || anywhere,
                    "{}: {}: {name}",
                    peer.name,
                    row.names
                );
            }
        }
    }
}

/// An option of Pelton keeps its meaning where another program spells one of its own so.
#[test]
fn own_options_win() {
    let root = Cli::command();
    let mut others = Vec::new();
    for command in root.get_subcommands() {
        let name = command.get_name();
        for argument in command.get_arguments().chain(root.get_arguments()) {
            let Some(long) = argument.get_long() else { continue };
            let mut spellings = vec![format!("--{long}")];
            spellings.extend(argument.get_short().map(|letter| format!("-{letter}")));
            for spelling in spellings {
                let Some(row) = super::programs::row(name, &spelling) else { continue };
                let own = format!("--{long}");
                let is_same = match row.fate {
                    Fate::Is(to) | Fate::By(_, to) | Fate::Flag(to) => {
                        to.split('=').next() == Some(own.as_str())
                    }
                    Fate::Model => long == "model",
                    _ => false,
                };
                if !is_same {
                    others.push(format!("{name} {spelling}"));
                }
            }
        }
    }
    assert!(others.is_empty(), "{others:?}");
}

/// No table has an option twice, and each flag has no value.
#[test]
fn tables_are_sound() {
    for peer in PEERS {
        for table in peer.tables {
            let mut seen: Vec<&str> = Vec::new();
            for row in table.iter() {
                for name in row.spellings() {
                    assert!(!seen.contains(&name), "{}: {name} is there twice", peer.name);
                    seen.push(name);
                }
                if let Fate::Flag(_) | Fate::Names(_) = row.fate {
                    assert!(matches!(row.takes, Takes::Nothing | Takes::Value), "{}", row.names);
                }
            }
        }
    }
}

/// All options that a line cannot have are reported together, each with a hint.
#[test]
fn problems_are_reported_together() {
    let line =
        "pelton serve m.gguf --mmproj-url p.gguf --slots --rpc h:1 --frobnicate -ctk q3_K --ts";
    let words = words(line).into_iter().map(OsString::from).collect();
    let line = rewritten(words, &Cli::command(), &|_| None);
    let errors: Vec<&str> = line.problems.iter().map(|problem| problem.error.as_str()).collect();
    assert_eq!(
        errors,
        [
            "--mmproj-url is no option of Pelton",
            "--rpc is no option of Pelton",
            "--frobnicate is no option of `pelton serve`",
            "-ctk is \"q3_K\", expected one of f16, f32, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl",
            "--ts is no option of `pelton serve`",
        ]
    );
    assert!(line.problems.iter().filter(|p| p.hint.is_some()).count() >= 4);
}

/// A misspelt name is answered with the right one, and a name of its own with none
/// that only looks alike.
#[test]
fn similar_names() {
    let hint = |line: &str| {
        let words = words(line).into_iter().map(OsString::from).collect();
        let line = rewritten(words, &Cli::command(), &|_| None);
        line.problems.first().and_then(|problem| problem.hint.clone()).unwrap_or_default()
    };
    assert!(hint("pelton run x --temprature 1").contains("--temperature is similar"));
    assert!(hint("pelton serve --ctx-sise 1").contains("--ctx-size is similar"));
    for line in
        ["pelton bench x --slots", "pelton run x --ssl-key-file k", "pelton embed x --image a.png"]
    {
        assert!(!hint(line).contains("similar"), "{line}: {}", hint(line));
    }
    assert!(hint("pelton run '- an item'").contains("-p gives a prompt"));
    assert!(!hint("pelton inspect '- an item'").contains("-p gives"));
}
