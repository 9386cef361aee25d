{# Statements that store unit `u` of a head of `length` units in Q8_0: `source` is the head's unit `$`
   in WGSL, `at` the unit's place in the cache `buffer`, and `of` says whether that has keys or values.
   With `keep` the unit is also written to that array, and with `when` it is stored under that condition
   alone. A thread computes the scale of the unit's block by itself; one of 16 stores the two scales of
   a word. #}
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
            {{ keep }}[u] = Stored(codes, bitcast<u32>(scale));
{% endif %}
{% if when %}
            if ({{ when }}) {
{% else %}
            {
{% endif %}
                {{ buffer }}[{{ of }}_word({{ at }})] = codes;
                if (u % 16u == 0u) {
                    var second = 0u;
                    for (var i = block + 8u; i < min(block + 16u, {{ length }}u); i++) {
{{ raise("second") -}}
                    }
                    {{ buffer }}[{{ of }}_scale_word({{ at }})] = scale16 | (block_scale(second) << 16u);
                }
            }
