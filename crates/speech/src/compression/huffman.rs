//! Lengths of Huffman codes as zlib chooses them among codes of equal cost.

/// The code lengths of a tree.
#[derive(Debug)]
pub(super) struct Code {
    /// The length in bits of each symbol's code, 0 for those that do not occur, up to the last that
    /// does.
    pub(super) lengths: Vec<usize>,
}

/// A node of the tree while it is built.
#[derive(Clone, Copy)]
struct Node {
    count: usize,
    depth: usize,
    parent: usize,
}

impl Code {
    /// The code for symbols of these counts, in at most `limit` bits each.
    pub(super) fn of(counts: &[usize], limit: usize) -> Self {
        let mut nodes: Vec<Node> =
            counts.iter().map(|&count| Node { count, depth: 0, parent: 0 }).collect();
        let mut heap: Vec<usize> = (0..counts.len()).filter(|&i| counts[i] > 0).collect();
        // deflate wants two codes at least
        while heap.len() < 2 {
            let next = match heap.last() {
                Some(&last) if last >= 2 => 0,
                Some(&last) => last + 1,
                None => 0,
            };
            nodes[next].count = 1;
            heap.push(next);
        }
        let last = heap.iter().copied().max().unwrap_or(0);
        for at in (0..heap.len() / 2).rev() {
            sink(&mut heap, at, &nodes);
        }
        // nodes in the order in which they left the heap
        let mut order = Vec::with_capacity(2 * heap.len());
        while heap.len() > 1 {
            let least = heap.swap_remove(0);
            sink(&mut heap, 0, &nodes);
            let next = heap[0];
            let parent = nodes.len();
            for child in [least, next] {
                nodes[child].parent = parent;
                order.push(child);
            }
            let [a, b] = [nodes[least], nodes[next]];
            nodes.push(Node { count: a.count + b.count, depth: a.depth.max(b.depth) + 1, parent });
            heap[0] = parent;
            sink(&mut heap, 0, &nodes);
        }
        Self { lengths: lengths(&nodes, &order, counts.len(), limit, last) }
    }

    /// Bits of all symbols.
    pub(super) fn bits(&self, counts: &[usize]) -> usize {
        self.lengths.iter().zip(counts).map(|(length, count)| length * count).sum()
    }
}

/// Moves the element at `at` down to its place in the heap, whose least is first. Among equal
/// counts the shallower one is less.
fn sink(heap: &mut [usize], mut at: usize, nodes: &[Node]) {
    let less = |a: usize, b: usize| {
        let [a, b] = [nodes[a], nodes[b]];
        (a.count, a.depth) <= (b.count, b.depth)
    };
    let Some(&moved) = heap.get(at) else { return };
    loop {
        let mut child = 2 * at + 1;
        if child + 1 < heap.len() && less(heap[child + 1], heap[child]) {
            child += 1;
        }
        if child >= heap.len() || less(moved, heap[child]) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/// The depth of each symbol in the tree, at most `limit`.
fn lengths(
    nodes: &[Node],
    order: &[usize],
    symbols: usize,
    limit: usize,
    last: usize,
) -> Vec<usize> {
    let root = nodes.len() - 1;
    let mut depth = vec![0; nodes.len()];
    let mut of_length = vec![0usize; limit + 1];
    let mut overflow = 0isize;
    for &node in order.iter().rev() {
        let parent = nodes[node].parent;
        let own = if parent == root { 1 } else { depth[parent] + 1 };
        overflow += isize::from(own > limit);
        depth[node] = own.min(limit);
        if node < symbols {
            of_length[depth[node]] += 1;
        }
    }
    if overflow > 0 {
        while overflow > 0 {
            let Some(bits) = (1..limit).rev().find(|&bits| of_length[bits] > 0) else { break };
            // a leaf moves down and becomes the sibling of one that was too deep
            of_length[bits] -= 1;
            of_length[bits + 1] += 2;
            of_length[limit] = of_length[limit].saturating_sub(1);
            overflow -= 2;
        }
        // the rarest symbols have the longest codes
        let mut leaves = order.iter().filter(|&&node| node < symbols);
        for bits in (1..=limit).rev() {
            for &leaf in leaves.by_ref().take(of_length[bits]) {
                depth[leaf] = bits;
            }
        }
    }
    depth.truncate(last + 1);
    depth
}
