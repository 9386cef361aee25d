{# The rows below 1, after a product of all rows has been written to y: copied from another buffer. #}
var<storage, read> other: array<f32>;
var<storage, read> lives: array<u32>;
var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < {{ width }}u && lives[{{ lives_at }}u + id.y * {{ lives_step }}u] >> 31u == 1u) {
        let at = id.y * {{ width }}u + id.x;
        y[at] = other[at];
    }
}
