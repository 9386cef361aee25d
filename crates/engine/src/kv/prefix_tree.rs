//! A radix tree of shared prefixes, with one full page of tokens on each edge.
//!
//! Tokens are compared, not hashed, below a root for each cache salt, set of adapters and effort of
//! the prompt. Where the prompt has effort 1 and the answer less, only pages of the prompt are
//! shared. A request holds the longest cached prefix of its prompt, of which at least one token is
//! left to run.
//!
//! When a pool is empty, the unheld page whose last use is the longest ago is evicted, leaves
//! first.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use pelton_graph::PAGE;

use super::pool::NodeId;

/// The tokens of one full page. Two pages with equal edges under the same node have equal bits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    tokens: [u32; PAGE],
    /// How many of the leading positions were run as rows of a prompt.
    prompt_rows: u8,
}

impl Edge {
    /// The edge of a page of tokens; `None` if they are not exactly one page.
    pub(crate) fn new(tokens: &[u32], prompt_rows: u8) -> Option<Self> {
        Some(Self { tokens: tokens.try_into().ok()?, prompt_rows })
    }

    pub(super) fn tokens(&self) -> &[u32; PAGE] {
        &self.tokens
    }

    pub(super) fn prompt_rows(&self) -> usize {
        self.prompt_rows.into()
    }

    /// The identity of the page after the one with the identity `parent`.
    fn identity(&self, parent: u64) -> u64 {
        hash_of(&(parent, self.tokens, self.prompt_rows()))
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The prefixes that sequences can share: those of the same salt, LoRA adapters and effort.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Namespace {
    /// The salt of the request.
    pub(crate) salt: u64,
    /// The adapters with the bits of their scales, in ascending order.
    pub(crate) loras: Vec<(u32, u32)>,
    /// The bits of the effort of prompts, if it is below 1.
    pub(crate) effort: Option<u64>,
}

impl From<u64> for Namespace {
    fn from(salt: u64) -> Self {
        Self { salt, ..Self::default() }
    }
}

#[derive(Debug)]
struct Node {
    parent: Option<NodeId>,
    /// The edge from the parent; `None` for a root.
    edge: Option<Arc<Edge>>,
    /// The namespace of a root.
    namespace: Option<Namespace>,
    /// The root above it, or itself.
    root: NodeId,
    /// A hash of the namespace and of all tokens up to here.
    id: u64,
    children: BTreeMap<Arc<Edge>, NodeId>,
    /// The page of each cache group, where it is cached.
    pages: Vec<Option<u32>>,
    /// The snapshot of the recurrent states after this node's page.
    snapshot: Option<u32>,
    /// Sequences whose deepest node this is.
    holders: u32,
}

/// The prefixes whose keys and values are cached: a root for each namespace, below it a
/// node for each full page.
#[derive(Debug)]
pub(crate) struct PrefixTree {
    nodes: Vec<Node>,
    vacant: Vec<NodeId>,
    roots: HashMap<Namespace, NodeId>,
    groups: usize,
}

impl PrefixTree {
    pub(crate) fn new(groups: usize) -> Self {
        Self { nodes: Vec::new(), vacant: Vec::new(), roots: HashMap::new(), groups }
    }

    fn add(
        &mut self,
        parent: Option<NodeId>,
        edge: Option<Arc<Edge>>,
        namespace: Option<Namespace>,
    ) -> NodeId {
        let pages = vec![None; self.groups];
        let children = BTreeMap::new();
        let place = self.vacant.pop().unwrap_or(self.nodes.len());
        let root = parent.map_or(place, |parent| self.nodes[parent].root);
        let id = match (parent, &edge) {
            (Some(parent), Some(edge)) => edge.identity(self.nodes[parent].id),
            _ => namespace.as_ref().map_or(0, hash_of),
        };
        let (snapshot, holders) = (None, 0);
        let node = Node { parent, edge, namespace, root, id, children, pages, snapshot, holders };
        match self.nodes.get_mut(place) {
            Some(vacant) => *vacant = node,
            None => self.nodes.push(node),
        }
        place
    }

    /// The root of a namespace, which it makes where there is none.
    pub(crate) fn root(&mut self, namespace: impl Into<Namespace>) -> NodeId {
        let namespace = namespace.into();
        if let Some(&root) = self.roots.get(&namespace) {
            return root;
        }
        let root = self.add(None, None, Some(namespace.clone()));
        self.roots.insert(namespace, root);
        root
    }

    /// The child of a node by its edge.
    pub(crate) fn child(&self, node: NodeId, edge: &Edge) -> Option<NodeId> {
        self.nodes[node].children.get(edge).copied()
    }

    /// The child of a node by its edge, which it makes where there is none.
    pub(crate) fn insert(&mut self, node: NodeId, edge: Edge) -> NodeId {
        if let Some(child) = self.child(node, &edge) {
            return child;
        }
        let edge = Arc::new(edge);
        let child = self.add(Some(node), Some(Arc::clone(&edge)), None);
        self.nodes[node].children.insert(edge, child);
        child
    }

    pub(crate) fn page(&self, node: NodeId, group: usize) -> Option<u32> {
        self.nodes[node].pages[group]
    }

    pub(crate) fn set_page(&mut self, node: NodeId, group: usize, page: Option<u32>) {
        self.nodes[node].pages[group] = page;
    }

    pub(crate) fn snapshot(&self, node: NodeId) -> Option<u32> {
        self.nodes[node].snapshot
    }

    pub(crate) fn set_snapshot(&mut self, node: NodeId, snapshot: Option<u32>) {
        self.nodes[node].snapshot = snapshot;
    }

    pub(crate) fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.nodes[node].parent
    }

    /// The edge from the parent; `None` for a root.
    pub(super) fn edge(&self, node: NodeId) -> Option<&Edge> {
        self.nodes[node].edge.as_deref()
    }

    /// The namespace that a node is in.
    pub(super) fn namespace(&self, node: NodeId) -> Namespace {
        self.nodes[self.nodes[node].root].namespace.clone().unwrap_or_default()
    }

    /// The identity of a node: equal for equal prefixes of equal namespaces.
    pub(super) fn id(&self, node: NodeId) -> u64 {
        self.nodes[node].id
    }

    pub(crate) fn is_leaf(&self, node: NodeId) -> bool {
        self.nodes[node].children.is_empty()
    }

    /// Moves a sequence's hold from one node to another, so that neither vanishes under it.
    pub(crate) fn move_hold(&mut self, from: Option<NodeId>, to: Option<NodeId>) {
        if let Some(to) = to {
            self.nodes[to].holders += 1;
        }
        if let Some(from) = from {
            self.nodes[from].holders = self.nodes[from].holders.saturating_sub(1);
            self.prune(from);
        }
    }

    /// Removes a node without pages, children and holders, then those above it that become so.
    pub(crate) fn prune(&mut self, node: NodeId) {
        let mut next = Some(node);
        while let Some(id) = next {
            let node = &mut self.nodes[id];
            let used = node.holders > 0
                || !node.children.is_empty()
                || node.snapshot.is_some()
                || node.pages.iter().any(Option::is_some);
            if used {
                return;
            }
            let (parent, edge) = (node.parent.take(), node.edge.take());
            let namespace = node.namespace.take();
            match (parent, &edge) {
                (Some(parent), Some(edge)) => {
                    self.nodes[parent].children.remove(edge);
                }
                _ => {
                    self.roots.remove(&namespace.unwrap_or_default());
                }
            }
            self.vacant.push(id);
            next = parent;
        }
    }

    /// Nodes that are in use, roots included.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_tokens_and_split() {
        let mut tree = PrefixTree::new(1);
        let root = tree.root(0);
        let tokens = [3; PAGE];
        let node = tree.insert(root, Edge::new(&tokens, 64).unwrap());
        assert_eq!(tree.child(root, &Edge::new(&tokens, 64).unwrap()), Some(node));
        assert_eq!(tree.child(root, &Edge::new(&tokens, 63).unwrap()), None);
        let mut other = tokens;
        other[63] = 4;
        assert_eq!(tree.child(root, &Edge::new(&other, 64).unwrap()), None);
        let salted = tree.root(1);
        assert_eq!(tree.child(salted, &Edge::new(&tokens, 64).unwrap()), None);
        assert_eq!(Edge::new(&tokens[1..], 63), None);
    }

    #[test]
    fn empty_nodes_vanish_from_the_leaf_up() {
        let mut tree = PrefixTree::new(1);
        let root = tree.root(0);
        let a = tree.insert(root, Edge::new(&[1; PAGE], 64).unwrap());
        let b = tree.insert(a, Edge::new(&[2; PAGE], 64).unwrap());
        tree.move_hold(None, Some(b));
        tree.prune(b);
        assert_eq!(tree.len(), 3);
        tree.set_page(a, 0, Some(9));
        tree.move_hold(Some(b), None);
        assert_eq!(tree.len(), 2);
        tree.set_page(a, 0, None);
        tree.prune(a);
        assert_eq!(tree.len(), 0);
    }
}
