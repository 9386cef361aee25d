//! Reports of cached pages that later prompts can hit.

use pelton_graph::{CacheGroup, PAGE};

use super::{
    pool::NodeId,
    prefix_tree::{Edge, PrefixTree},
};
use crate::api::{CacheCallback, CacheEvent, CachedPage};

/// The changes since the last report, and the function that receives them.
pub(crate) struct Reports {
    call: CacheCallback,
    pending: Vec<CacheEvent>,
    /// The cache group whose pages are reported: the first one without a window, which
    /// every hit needs whole.
    group: usize,
}

impl Reports {
    pub(super) fn new(call: CacheCallback, groups: &[CacheGroup]) -> Self {
        let group = groups.iter().position(|group| group.window.is_none()).unwrap_or(0);
        Self { call, pending: vec![CacheEvent::Cleared], group }
    }

    /// A node has got its page of a group.
    pub(super) fn stored(&mut self, tree: &PrefixTree, node: NodeId, group: usize) {
        let Some(edge) = self.reported(tree, node, group) else { return };
        let namespace = tree.namespace(node);
        self.pending.push(CacheEvent::Stored(CachedPage {
            id: tree.id(node),
            parent: tree.parent(node).filter(|&node| tree.edge(node).is_some()).map(|n| tree.id(n)),
            tokens: edge.tokens().to_vec(),
            salt: namespace.salt,
            loras: namespace
                .loras
                .iter()
                .map(|&(index, scale)| (index, f32::from_bits(scale)))
                .collect(),
            effort: namespace.effort.map_or(1.0, f64::from_bits),
        }));
    }

    /// A node has lost its page of a group.
    pub(super) fn removed(&mut self, tree: &PrefixTree, node: NodeId, group: usize) {
        if self.reported(tree, node, group).is_some() {
            self.pending.push(CacheEvent::Removed(tree.id(node)));
        }
    }

    fn reported<'a>(&self, tree: &'a PrefixTree, node: NodeId, group: usize) -> Option<&'a Edge> {
        // a prompt's page has rows of the prompt alone
        let can_hit = |edge: &&Edge| edge.prompt_rows() == PAGE;
        tree.edge(node).filter(|_| group == self.group).filter(can_hit)
    }

    /// Passes the changes on.
    pub(super) fn send(&mut self) {
        if !self.pending.is_empty() {
            self.call.call(std::mem::take(&mut self.pending));
        }
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.pending.push(CacheEvent::Cleared);
        self.send();
    }
}
