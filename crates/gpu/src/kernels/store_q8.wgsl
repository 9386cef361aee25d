{# The statements of store_block.wgsl for Q8_0. A thread computes the scale of the unit's block by
   itself; one of 16 stores the two scales of a word. #}
{% macro raise(name) %}
                let bits = bitcast<vec4<u32>>(abs({{ source | replace("$", "i") }}));
                {{ name }} = max({{ name }}, max(max(bits.x, bits.y), max(bits.z, bits.w)));
{% endmacro %}
            let block = u / 8u * 8u;
            var most = 0u;
            for (var i = block; i < block + 8u; i++) {
{{ raise("most") -}}
            }
            let scale16 = block_scale(most);
            let scale = scale_of(scale16);
            let codes = codes_of({{ source | replace("$", "u") }}, scale);
{% if keep %}
            {{ keep }}[u] = {{ side.stored }}(codes, bitcast<u32>(scale));
{% endif %}
{% if when %}
            if ({{ when }}) {
{% else %}
            {
{% endif %}
                let words = ({{ at }}) / {{ side.stride }}u * {{ side.words }}u;
                {{ side.of }}s[words + u] = codes;
                if (u % 16u == 0u) {
                    var second = 0u;
                    for (var i = block + 8u; i < min(block + 16u, {{ length }}u); i++) {
{{ raise("second") -}}
                    }
                    {{ side.of }}s[words + {{ side.factors_at }}u + u / 16u] = scale16 | (block_scale(second) << 16u);
                }
            }
