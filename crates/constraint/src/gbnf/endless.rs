//! Rules without an end: every text of theirs goes on for ever.

use super::rules::{Part, Rules};

/// A part of a rule, which ends as soon as enough of what it consists of does.
struct Node {
    /// Parts that have to end before it does and do not yet.
    missing: usize,
    /// The rules that wait for it.
    users: Vec<usize>,
}

/// Whether a rule has no finite text, such as `root ::= "a" root`.
pub(super) fn has_endless(rules: &Rules) -> bool {
    // the first nodes are the rules
    let mut nodes: Vec<Node> =
        rules.rules.iter().map(|_| Node { missing: 1, users: Vec::new() }).collect();
    let mut ended = Vec::new();
    for (index, (part, _)) in rules.rules.iter().enumerate() {
        let node = add(part, &mut nodes, &mut ended);
        nodes[node].users.push(index);
    }
    while let Some(node) = ended.pop() {
        for user in std::mem::take(&mut nodes[node].users) {
            // an alternative may end after another of the same choice
            let Some(missing) = nodes[user].missing.checked_sub(1) else { continue };
            nodes[user].missing = missing;
            if missing == 0 {
                ended.push(user);
            }
        }
    }
    nodes[..rules.rules.len()].iter().any(|node| node.missing > 0)
}

/// Adds the nodes of a part; those that end by themselves are in `ended`. Returns the part's own.
fn add(part: &Part, nodes: &mut Vec<Node>, ended: &mut Vec<usize>) -> usize {
    let (missing, children): (usize, &[Part]) = match part {
        Part::Rule(index) => return *index,
        Part::Text(_) | Part::Class { .. } | Part::Token(_) => (0, &[]),
        Part::Sequence(all) => (all.len(), all),
        Part::Choice(all) => (all.len().min(1), all),
        Part::Repeat { min: 0, .. } | Part::Repeat { max: Some(0), .. } => (0, &[]),
        Part::Repeat { part, .. } => return add(part, nodes, ended),
    };
    let own = nodes.len();
    nodes.push(Node { missing, users: Vec::new() });
    if missing == 0 {
        ended.push(own);
    }
    for child in children {
        let child = add(child, nodes, ended);
        nodes[child].users.push(own);
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gbnf::parse;

    #[test]
    fn rules_without_an_end_are_found() {
        for (grammar, is_endless) in [
            ("root ::= \"a\" root", true),
            ("root ::= \"a\" root?", false),
            ("root ::= \"a\" root{0,3} | root root", false),
            ("root ::= \"a\"* root+", true),
            ("root ::= \"a\" root | \"b\" (root | root)", true),
            ("root ::= \"a\" root | \"b\" (root | \"c\")", false),
            ("root ::= \"x\" | a\na ::= b \"a\"\nb ::= a | a a", true),
            ("root ::= \"x\" | a\na ::= b \"a\"\nb ::= a | a a | [0-9]", false),
            ("root ::= a a\na ::= b b\nb ::= \"c\"", false),
        ] {
            assert_eq!(has_endless(&parse::parse(grammar).unwrap()), is_endless, "{grammar}");
        }
    }
}
