{# The likeliest token of each chunk of the vocabulary. A thread reduces one chunk: EACH times four
   consecutive logits, at a stride at which the workgroup's reads are coalesced. With `raw` masks do
   not count, and the greatest logit of each chunk is written too, those of ids that are no token
   included. #}
{% include "sample/params.wgsl" %}
{% include "sample/logits.wgsl" %}
var<storage, read_write> best: array<vec2<u32>>;
{% if raw %}
var<storage, read_write> peaks: array<u32>;
{% endif %}

@compute @workgroup_size({{ chunk_threads }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    begin_logits(group.y);
    var most = vec2(0u);
    let begin = group.x * {{ each * chunk_threads }}u + thread;
    // all loads come first, so that they are in flight together
{% for j in range(each) %}
    let b{{ j }} = load(begin + {{ j * chunk_threads }}u);
{% endfor %}
{% for j in range(each) %}
    let k{{ j }} = drawable(begin + {{ j * chunk_threads }}u, b{{ j }});
{% for c in range(4) %}
    // ids ascend, so of equal logits the first stays
    if (k{{ j }}[{{ c }}] > most.x) {
        most = vec2(k{{ j }}[{{ c }}], 4u * (begin + {{ j * chunk_threads }}u) + {{ c }}u);
    }
{% endfor %}
{% endfor %}
    let chunk = group.y * {{ chunks }}u + group.x * {{ chunk_threads }}u + thread;
    best[chunk] = most;
{% if raw %}
    var peak = vec4(0u);
{% for j in range(each) %}
    peak = max(peak, keys_of(b{{ j }}));
{% endfor %}
    peaks[chunk] = max(max(peak.x, peak.y), max(peak.z, peak.w));
{% endif %}
}
