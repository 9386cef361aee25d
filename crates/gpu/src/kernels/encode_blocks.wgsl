{# The functions that store_block.wgsl calls, for the types of keys and values. #}
{% if key_side.bits or value_side.bits %}
{% include "half_bits.wgsl" %}
{% endif %}
{% if key_side.bits == 8 or value_side.bits == 8 %}
{% include "q8_codes.wgsl" %}
{% endif %}
{% for side in [key_side, value_side] if side.bits and side.bits != 8 %}
{% include "block_codes.wgsl" %}
{% endfor %}
