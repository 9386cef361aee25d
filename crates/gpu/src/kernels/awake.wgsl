{# Keeps a GPU busy until the host has released as many of these kernels as have begun. The turns are bounded. #}
var<storage, read_write> released: atomic<u32>;
var<storage, read_write> begun: u32;

@compute @workgroup_size(1)
fn main() {
    let own = begun + 1u;
    begun = own;
    var turn = 0u;
    while (turn < {{ turns }}u && i32(atomicLoad(&released) - own) < 0) {
        turn += 1u;
    }
}
