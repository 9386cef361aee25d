{# Tells the host that the values before it have arrived, and keeps the GPU busy until the host has released it. The
   turns are bounded. Then it takes what the host has handed over: a number of words, and the words. #}
// not read: the kernel begins when the copies to it have ended
var<storage, read> values: array<u32>;
// atomic, as the host writes them while the kernel runs
var<storage, read_write> sent: array<atomic<u32>>;
var<storage, read_write> results: array<u32>;
var<storage, read_write> begun: u32;
var<storage, read_write> arrived: atomic<u32>;
var<storage, read_write> released: atomic<u32>;
// not 0 once the turns of a kernel ran out
var<storage, read_write> late: u32;

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) thread: u32) {
    if (thread == 0u) {
        let own = begun + 1u;
        begun = own;
        atomicStore(&arrived, own);
        // after one that is late none has to wait
        var turn = select(0u, {{ turns }}u, late != 0u);
        while (turn < {{ turns }}u && i32(atomicLoad(&released) - own) < 0) {
            turn += 1u;
        }
        if (turn == {{ turns }}u) {
            late = 1u;
        }
    }
    // the host has written these before it released the kernel
    storageBarrier();
    workgroupBarrier();
    let count = min(atomicLoad(&sent[0]), arrayLength(&results));
    for (var i = thread; i < count; i += {{ threads }}u) {
        results[i] = atomicLoad(&sent[{{ header }}u + i]);
    }
}
