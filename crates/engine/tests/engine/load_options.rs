//! The table of load options in `docs/library.md`, compared with [`LoadOptions::OPTIONS`].
//! `PELTON_WRITE=1` rewrites the file.

use std::{fmt::Write, fs, path::Path};

use pelton::LoadOptions;

const BEGIN: &str = "<!-- options: crates/engine/tests/engine/load_options.rs -->\n";
const END: &str = "<!-- end of options -->";

fn table() -> String {
    let mut text =
        "| option | flag | values | default | effect |\n|---|---|---|---|---|\n".to_owned();
    for option in LoadOptions::OPTIONS {
        let python = match option.python == option.name {
            true => String::new(),
            false => format!(" (Python: `{}`)", option.python),
        };
        let code = |text: Option<String>| text.map(|text| format!("`{text}`")).unwrap_or_default();
        let flag = code(option.flag.map(|flag| format!("--{flag}")));
        let default = code(option.default.map(str::to_owned));
        let (name, values, effect) = (option.name, option.expected(), option.help);
        writeln!(text, "| `{name}`{python} | {flag} | {values} | {default} | {effect} |").unwrap();
    }
    text
}

#[test]
fn the_table_of_options() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/library.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let expected = table();
    if std::env::var_os("PELTON_WRITE").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
    } else {
        assert_eq!(found, expected, "PELTON_WRITE=1 cargo test -p pelton rewrites it");
    }
}
