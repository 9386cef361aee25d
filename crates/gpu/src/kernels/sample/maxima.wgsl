{# The best token of each chunk of the vocabulary. A thread takes a chunk: EACH times four logits in
   a row, as far apart as lets the workgroup read them side by side. #}
{% include "sample/logits.wgsl" %}
@group(0) @binding(1) var<storage, read_write> best: array<vec2<u32>>;

@compute @workgroup_size({{ chunk_threads }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var most = vec2(0u);
    let begin = group.x * {{ each * chunk_threads }}u + thread;
{% for j in range(each) %}
    let k{{ j }} = keys(begin + {{ j * chunk_threads }}u);
{% endfor %}
{% for j in range(each) %}
{% for c in range(4) %}
    // tokens ascend, so that of equal ones the first stays
    if (k{{ j }}[{{ c }}] > most.x) {
        most = vec2(k{{ j }}[{{ c }}], 4u * (begin + {{ j * chunk_threads }}u) + {{ c }}u);
    }
{% endfor %}
{% endfor %}
    best[group.x * {{ chunk_threads }}u + thread] = most;
}
