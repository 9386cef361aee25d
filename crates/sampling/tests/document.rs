//! The table of options in `docs/decoding.md`, compared with [`Sampling::OPTIONS`].
//! `PELTON_WRITE=1` rewrites the file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::{fmt::Write, fs, path::Path};

use pelton_sampling::{OptionKind, Sampling};

const BEGIN: &str = "<!-- options: crates/sampling/tests/document.rs -->\n";
const END: &str = "<!-- end of options -->";

fn table() -> String {
    let mut text =
        "| option | flag | default | range | effect | runs |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for option in Sampling::OPTIONS {
        let others: Vec<String> = option.keys().skip(1).map(|key| format!("`{key}`")).collect();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!(" (also {})", others.join(", ")),
        };
        let values = option.show(&Sampling::default());
        let default = match option.kind {
            OptionKind::Seed(_) => "random".to_owned(),
            OptionKind::Samplers(_) => values[0].replace(',', ", "),
            OptionKind::Texts(..) => {
                values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" ")
            }
            _ => values.concat(),
        };
        let (name, flag, range) = (option.name, option.flag, option.expected());
        let (effect, runs) = (option.help, option.runs);
        writeln!(
            text,
            "| `{name}`{others} | `--{flag}` | {default} | {range} | {effect} | {runs} |"
        )
        .unwrap();
    }
    text
}

#[test]
fn the_table_of_options() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/decoding.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let expected = table();
    if std::env::var_os("PELTON_WRITE").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
    } else {
        assert_eq!(found, expected, "PELTON_WRITE=1 cargo test -p pelton-sampling rewrites it");
    }
}
