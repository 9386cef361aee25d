{# A persistent kernel: phases that would be dispatches one after the other, with a grid barrier
   between each two (persist/link.rs). All workgroups must be resident at once, which nothing
   promises: so spins are bounded, and a spin that runs out sets the word DEAD. The host then repeats
   the pass by dispatches. #}
const WORKGROUPS = {{ groups }}u;
{{ declarations }}
// Words of the barrier, in cache lines of their own: arrivals, whether a spin ran out, and arrivals
// before this dispatch.
var<storage, read_write> barrier_words: array<atomic<u32>>;
const ARRIVED = 0u;
const DEAD = 32u;
const BEFORE = 64u;

// The polling thread's arrivals after the last barrier, and the turns of the next spin, 0 once one
// has run out.
var<private> arrivals: u32;
var<private> turns: u32;
// Whether the workgroup has waited for the phase before.
var<private> waited: bool;

// Ends a phase: what the workgroup wrote to coherent buffers is visible to all that wait for it.
fn arrive(thread: u32) {
    storageBarrier();
    waited = false;
    if (thread == 0u) {
        arrivals += WORKGROUPS;
        atomicAdd(&barrier_words[ARRIVED], 1u);
    }
}

// Waits until all workgroups have arrived, in `turns` turns at most.
fn wait_for_inputs(thread: u32) {
    if (!waited) {
        waited = true;
        if (thread == 0u) {
            var missing = true;
            for (var turn = 0u; turn < turns; turn++) {
                missing = bitcast<i32>(atomicLoad(&barrier_words[ARRIVED]) - arrivals) < 0;
                if (!missing) {
                    break;
                }
            }
            if (missing) {
                atomicStore(&barrier_words[DEAD], 1u);
                turns = 0u;
            }
        }
        workgroupBarrier();
    }
}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let own = workgroup.x;
    waited = true;
    if (thread == 0u) {
        arrivals = atomicLoad(&barrier_words[BEFORE]);
        turns = select({{ turns }}u, 0u, atomicLoad(&barrier_words[DEAD]) != 0u);
    }
{% for phase in phases %}
{% if not loop.first %}
    arrive(thread);
{% endif %}
{% if not phase.waits %}
    wait_for_inputs(thread);
{% endif %}
{% if phase.several %}
    for (var i = own; i < {{ phase.count }}u; i += WORKGROUPS) {
        let group = vec3(i % {{ phase.x }}u, i / {{ phase.x }}u % {{ phase.y }}u, i / {{ phase.x * phase.y }}u);
        phase_{{ loop.index0 }}({{ phase.arguments }});
        workgroupBarrier();
    }
{% else %}
    if (own < {{ phase.count }}u) {
        let group = vec3(own % {{ phase.x }}u, own / {{ phase.x }}u % {{ phase.y }}u, own / {{ phase.x * phase.y }}u);
        phase_{{ loop.index0 }}({{ phase.arguments }});
    }
{% endif %}
{% if phase.waits %}
    // a workgroup without this phase, or that left it early
    wait_for_inputs(thread);
{% endif %}
{% endfor %}
    // all workgroups have read the word: each has arrived at the first barrier
    if (own == 0u && thread == 0u) {
        atomicStore(&barrier_words[BEFORE], arrivals);
    }
}
