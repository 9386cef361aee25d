//! The findings, as text and as JSON.

use std::fmt::Write;

use pelton_printable::line;
use serde_json::{Map, Value, json};

/// A finding.
pub(super) struct Row {
    /// The name for people.
    name: &'static str,
    /// The name for programs.
    key: &'static str,
    text: String,
    value: Value,
}

impl Row {
    pub(super) fn new(
        name: &'static str,
        key: &'static str,
        text: impl Into<String>,
        value: impl Into<Value>,
    ) -> Self {
        Self { name, key, text: text.into(), value: value.into() }
    }
}

/// A part of the report.
struct Section {
    title: &'static str,
    /// Lines of a name and a text.
    lines: Vec<(String, String)>,
    value: Value,
}

/// All findings.
#[derive(Default)]
pub(super) struct Report {
    sections: Vec<Section>,
}

impl Report {
    /// Adds a section whose findings have names.
    pub(super) fn add(&mut self, title: &'static str, rows: Vec<Row>) {
        let mut lines = Vec::new();
        let mut object = Map::new();
        for row in rows {
            lines.push((row.name.to_owned(), row.text));
            object.insert(row.key.to_owned(), row.value);
        }
        self.sections.push(Section { title, lines, value: object.into() });
    }

    /// Adds a section that is a list.
    pub(super) fn list(&mut self, title: &'static str, items: Vec<(Vec<(String, String)>, Value)>) {
        let (lines, values): (Vec<_>, Vec<Value>) = items.into_iter().unzip();
        let lines = lines.into_iter().flatten().collect();
        self.sections.push(Section { title, lines, value: values.into() });
    }

    /// Adds a section with a sentence instead of a list.
    pub(super) fn line(&mut self, title: &'static str, name: &str, sentence: &str) {
        let lines = vec![(name.to_owned(), sentence.to_owned())];
        self.sections.push(Section { title, lines, value: Vec::<Value>::new().into() });
    }

    /// The sections as lines, without a line break at the end.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            let _ = writeln!(text, "{}", section.title);
            let width = section.lines.iter().map(|(name, _)| name.chars().count()).max();
            let width = width.unwrap_or_default();
            for (name, found) in &section.lines {
                let _ = writeln!(text, "  {name:<width$}  {}", line(found));
            }
        }
        text
    }

    /// The sections as one object, with the answer of the built-in model.
    pub(super) fn json(self, answer: Value) -> Value {
        let mut object = Map::new();
        for section in self.sections {
            object.insert(section.title.to_lowercase().replace(' ', "_"), section.value);
        }
        object.insert("answer".to_owned(), answer);
        json!(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_aligned_and_named() {
        let mut report = Report::default();
        report.add("CPU", vec![Row::new("n", "n", "x", 1), Row::new("long", "l", "y", true)]);
        report.list("GPUs", vec![(vec![("gpu:0".into(), "z".into())], json!({"a": 1}))]);
        assert_eq!(report.text(), "CPU\n  n     x\n  long  y\nGPUs\n  gpu:0  z\n");
        let expected = json!({"cpu": {"n": 1, "l": true}, "gpus": [{"a": 1}], "answer": null});
        assert_eq!(report.json(Value::Null), expected);
    }
}
