{# Statements that store unit `u` of a head of `length` units in the block type of `side`: `source` is
   the head's unit `$` in WGSL, and `at` the unit's place in the cache. With `keep` the unit is also
   written to that array, and with `when` it is stored under that condition alone. #}
{% if side.bits == 8 %}
{% include "store_q8.wgsl" %}
{% else %}
{% set buffer = side.of ~ "s" %}
            // a thread of eight stores their block
            if (u % 8u == 0u) {
                var block: array<vec4<f32>, 8>;
                for (var i = 0u; i < 8u; i++) {
                    block[i] = {{ source | replace("$", "u + i") }};
                }
                let factors = factors_of_{{ side.of }}(block);
                let words = ({{ at }}) / {{ side.stride }}u * {{ side.words }}u;
                var fifth = 0u;
                for (var i = 0u; i < 4u; i++) {
                    let a = {{ side.of }}_codes(block[2u * i], factors);
                    let b = {{ side.of }}_codes(block[2u * i + 1u], factors);
                    let shifts = vec4(0u, 4u, 8u, 12u);
                    let lower = ((a & vec4(15u)) << shifts) | ((b & vec4(15u)) << (shifts + 16u));
                    let word = lower.x | lower.y | lower.z | lower.w;
{% if side.bits == 5 %}
                    let upper = ((a >> vec4(4u)) | ((b >> vec4(4u)) << vec4(4u))) << vec4(0u, 1u, 2u, 3u);
                    fifth |= (upper.x | upper.y | upper.z | upper.w) << (8u * i);
{% endif %}
{% if keep %}
{% set factor = "factors.bits" if side.has_min else "bitcast<u32>(unpack2x16float(factors.bits).x)" %}
                    {{ keep }}[u + 2u * i] = {{ side.stored }}(pack4xU8(a), {{ factor }});
                    {{ keep }}[u + 2u * i + 1u] = {{ side.stored }}(pack4xU8(b), {{ factor }});
{% endif %}
{% if when %}
                    if ({{ when }}) {
{% else %}
                    {
{% endif %}
                        {{ buffer }}[words + u / 2u + i] = word;
                    }
                }
{% if when %}
                if ({{ when }}) {
{% else %}
                {
{% endif %}
{% if side.bits == 5 %}
                    {{ buffer }}[words + {{ side.fifth_at }}u + u / 8u] = fifth;
{% endif %}
{% if side.has_min %}
                    {{ buffer }}[words + {{ side.factors_at }}u + u / 8u] = factors.bits;
{% else %}
                    if (u % 16u == 0u) {
                        var second = 0u;
                        if (u + 8u < {{ length }}u) {
                            for (var i = 0u; i < 8u; i++) {
                                block[i] = {{ source | replace("$", "u + 8u + i") }};
                            }
                            second = factors_of_{{ side.of }}(block).bits;
                        }
                        {{ buffer }}[words + {{ side.factors_at }}u + u / 16u] = factors.bits | (second << 16u);
                    }
{% endif %}
                }
            }
{% endif %}
