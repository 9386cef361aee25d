//! Search for all tokens that are prefixes of a text.

/// A trie of tokens, with one byte per level.
#[derive(Debug)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    /// The byte of the transition into each node, sorted among the children of a node.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Index of the first child; the children of a node are contiguous.
    first: u32,
    children: u16,
    /// The token that ends at this node.
    token: Option<u32>,
}

impl Trie {
    /// Builds the trie of these tokens, which must not be empty; among equal ones any is found.
    pub(crate) fn new<'a>(tokens: impl Iterator<Item = (&'a [u8], u32)>) -> Self {
        let mut tokens: Vec<_> = tokens.collect();
        tokens.sort_unstable();
        let root = Node { first: 0, children: 0, token: None };
        let mut this = Self { nodes: vec![root], bytes: vec![0] };
        // Breadth-first: each entry has the range of tokens below a node and the node's depth.
        let mut below = vec![(0, tokens.len(), 0)];
        let mut node = 0;
        while let Some(&(mut from, to, depth)) = below.get(node) {
            while from < to && tokens[from].0.len() == depth {
                this.nodes[node].token = Some(tokens[from].1);
                from += 1;
            }
            this.nodes[node].first = this.nodes.len() as u32;
            while from < to {
                let byte = tokens[from].0[depth];
                let end = from + tokens[from..to].partition_point(|(t, _)| t[depth] == byte);
                this.nodes[node].children += 1;
                this.nodes.push(root);
                this.bytes.push(byte);
                below.push((from, end, depth + 1));
                from = end;
            }
            node += 1;
        }
        this
    }

    /// The tokens that are prefixes of `text`, shortest first, each with its length in bytes.
    pub(crate) fn prefixes(&self, text: &[u8]) -> impl Iterator<Item = (usize, u32)> {
        let mut node = self.nodes[0];
        text.iter()
            .zip(1..)
            .map_while(move |(&byte, length)| {
                node = self.child(node, byte)?;
                Some((length, node.token))
            })
            .filter_map(|(length, token)| Some((length, token?)))
    }

    fn child(&self, node: Node, byte: u8) -> Option<Node> {
        let first = node.first as usize;
        let bytes = &self.bytes[first..first + usize::from(node.children)];
        let at = bytes.binary_search(&byte).ok()?;
        Some(self.nodes[first + at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_prefix() {
        let tokens = ["a", "abc", "ab", "b", "\u{0}", "é"];
        let trie = Trie::new(tokens.iter().map(|token| token.as_bytes()).zip(0..));
        let found = |text: &str| trie.prefixes(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(found("abcd"), [(1, 0), (2, 2), (3, 1)]);
        assert_eq!(found("bab"), [(1, 3)]);
        assert_eq!(found("\u{0}x"), [(1, 4)]);
        assert_eq!(found("é"), [(2, 5)]);
        assert_eq!(found("x"), []);
        assert_eq!(found(""), []);
        assert!(Trie::new(std::iter::empty()).prefixes(b"a").next().is_none());
    }
}
