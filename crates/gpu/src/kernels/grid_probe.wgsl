{# One phase of the probe of grid barriers: elements move to other workgroups and grow by 1, so that
   after n phases all are n if each phase read what the one before wrote. #}
const COUNT = {{ groups * threads }}u;

var<storage, read> before: array<vec4<f32>>;
var<storage, read_write> after: array<vec4<f32>>;

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = group.x * {{ threads }}u + thread;
    after[i] = before[(i + {{ threads + 1 }}u) % COUNT] + vec4(1.0);
}
