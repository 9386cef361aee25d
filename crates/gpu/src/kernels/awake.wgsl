{# Tells the host that the values before it have arrived, and keeps the GPU busy until the host has released it. The
   turns are bounded. #}
// not read: the kernel begins when the copies to it have ended
var<storage, read> values: array<u32>;
var<storage, read_write> begun: u32;
var<storage, read_write> arrived: atomic<u32>;
var<storage, read_write> released: atomic<u32>;

@compute @workgroup_size(1)
fn main() {
    let own = begun + 1u;
    begun = own;
    atomicStore(&arrived, own);
    var turn = 0u;
    while (turn < {{ turns }}u && i32(atomicLoad(&released) - own) < 0) {
        turn += 1u;
    }
}
