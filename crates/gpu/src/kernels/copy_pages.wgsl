{# Copies of pages within a cache of keys or values. A workgroup copies {{ threads }} vectors of a page. #}
const PAGE = {{ page }}u;

var<storage, read_write> cache: array<vec4<u32>>;
// the page that is copied, and its copy
var<storage, read> pages: array<vec2<u32>>;

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let it = pages[group.y];
    let at = group.x * {{ threads }}u + thread;
    if (at < PAGE) {
        cache[it.y * PAGE + at] = cache[it.x * PAGE + at];
    }
}
