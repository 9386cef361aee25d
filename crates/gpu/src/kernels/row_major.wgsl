{# A matrix in input-major order (weights/lines.rs), copied to the planes of weights/layout.rs. A thread
   copies two units: of a row, or of the next row where a row has an odd number of units. #}
const K = {{ k }}u;
const UNITS = {{ units }}u;
const ROWS = {{ rows }}u;
const LINE = {{ line }}u;
const SLAB = {{ line * per_word }}u;

var<storage, read> m: array<u32>;
var<storage, read_write> planes: array<u32>;

{% if blocks %}
fn byte_at(at: u32) -> u32 {
    return (m[at / 4u] >> (at % 4u * 8u)) & 255u;
}

fn half_at(at: u32) -> u32 {
    return (m[at / 2u] >> (at % 2u * 16u)) & 0xffffu;
}

// The code of input `i` of a unit.
fn code(n: u32, unit: u32, i: u32) -> u32 {
    let line = n / SLAB * K + unit * 32u + i;
    let word = n % SLAB / {{ per_word }}u;
    let byte = (n + i) % 4u;
{% if per_word == 4 %}
    return (m[line * LINE + word] >> (byte * 8u)) & 255u;
{% else %}
    let half = n / 4u % 2u;
    var value = (m[line * LINE + word] >> (byte * 8u + half * 4u)) & 15u;
{% if upper_bits == 4 %}
    value |= ((m[{{ section.high }}u + line * LINE + word] >> (byte * 8u + half * 4u)) & 15u) << 4u;
{% elif upper_bits %}
    let upper = m[{{ section.high }}u + line * {{ line * upper_bits // 4 }}u + word / {{ 4 // upper_bits }}u] >> (word % {{ 4 // upper_bits }}u * {{ 8 * upper_bits }}u);
    value |= ((upper >> ((4u * half + byte) * {{ upper_bits }}u)) & {{ 2 ** upper_bits - 1 }}u) << 4u;
{% endif %}
    return value;
{% endif %}
}
{% endif %}

// Copies a unit; of fields of two bytes it returns `d` and `sub`.
fn copy_unit(n: u32, unit: u32) -> vec2<u32> {
    let i = n * UNITS + unit;
{% if blocks %}
    var codes: array<u32, 32>;
    for (var j = 0u; j < 32u; j++) {
        codes[j] = code(n, unit, j);
    }
    for (var w = 0u; w < 4u; w++) {
        var low = 0u;
        var second = 0u;
        for (var j = 0u; j < 4u; j++) {
{% if whole %}
            low |= codes[4u * w + j] << (8u * j);
            second |= codes[16u + 4u * w + j] << (8u * j);
{% else %}
            low |= ((codes[4u * w + j] & 15u) | ((codes[16u + 4u * w + j] & 15u) << 4u)) << (8u * j);
{% endif %}
        }
{% if whole %}
        planes[{{ low }}u + (2u * n * UNITS + unit) * 4u + w] = low;
        planes[{{ low }}u + ((2u * n + 1u) * UNITS + unit) * 4u + w] = second;
{% else %}
        planes[{{ low }}u + i * 4u + w] = low;
{% endif %}
    }
{% if upper_bits == 1 %}
    var high = 0u;
    for (var j = 0u; j < 32u; j++) {
        high |= (codes[j] >> 4u) << (j % 4u * 8u + j / 4u);
    }
    planes[{{ high }}u + i] = high;
{% elif upper_bits == 2 %}
    for (var h = 0u; h < 2u; h++) {
        var high = 0u;
        for (var j = 0u; j < 16u; j++) {
            high |= (codes[16u * h + j] >> 4u) << (j % 4u * 8u + j / 4u * 2u);
        }
        planes[{{ high }}u + i * 2u + h] = high;
    }
{% endif %}
    let slab = n / SLAB;
    let own = n % SLAB;
    var fields = vec2(0u);
{% if d_units == 1 and d_fields == 1 %}
    fields.x = half_at(2u * {{ section.d }}u + (slab * UNITS + unit) * SLAB + own);
{% elif d_units == 1 %}
    let d = 2u * {{ section.d }}u + (slab * UNITS + unit) * 2u * SLAB + own;
    planes[{{ d }}u + i] = half_at(d) | (half_at(d + SLAB) << 16u);
{% else %}
    if (unit % 8u == 0u) {
        let d = 2u * {{ section.d }}u + (slab * (UNITS / 8u) + unit / 8u) * {{ d_fields }}u * SLAB + own;
        planes[{{ d }}u + i / 8u] = half_at(d){{ " | (half_at(d + SLAB) << 16u)" if d_fields == 2 }};
    }
    let sub = 4u * {{ section.sub }}u + (slab * UNITS + unit) * 2u * SLAB + own;
    fields.y = byte_at(sub) | (byte_at(sub + SLAB) << 8u);
{% endif %}
    return fields;
{% else %}
{% set words = unit // per_word %}
    var row: array<u32, {{ unit }}>;
    for (var j = 0u; j < {{ unit }}u; j++) {
        let input = unit * {{ unit }}u + j;
        let word = m[(n / SLAB * K + min(input, K - 1u)) * LINE + n % SLAB / {{ per_word }}u];
{% if per_word == 2 %}
        row[j] = select(0u, (word >> (n % 2u * 16u)) & 0xffffu, input < K);
{% else %}
        row[j] = select(0u, word, input < K);
{% endif %}
    }
    for (var w = 0u; w < 4u; w++) {
{% if per_word == 2 %}
        planes[{{ low }}u + i * 4u + w] = row[2u * w] | (row[2u * w + 1u] << 16u);
{% else %}
        planes[{{ low }}u + i * 4u + w] = row[w];
{% endif %}
    }
    return vec2(0u);
{% endif %}
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
{% if units % 2 == 0 %}
    let n = id.x;
    let first = n * UNITS + 2u * id.y;
    if (n >= ROWS) {
        return;
    }
{% else %}
    let first = 2u * (id.y * {{ across }}u + id.x);
    if (id.x >= {{ across }}u || first >= ROWS * UNITS) {
        return;
    }
{% endif %}
    let one = copy_unit(first / UNITS, first % UNITS);
    var two = vec2(0u);
    if (first + 1u < ROWS * UNITS) {
        two = copy_unit((first + 1u) / UNITS, (first + 1u) % UNITS);
    }
{% if blocks and d_units == 1 and d_fields == 1 %}
    planes[{{ d }}u + first / 2u] = one.x | (two.x << 16u);
{% elif blocks and d_units == 8 %}
    planes[{{ sub }}u + first / 2u] = one.y | (two.y << 16u);
{% endif %}
}
