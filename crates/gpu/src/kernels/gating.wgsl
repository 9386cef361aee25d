{# The product `gated` of a gate and a value of the type `element`. #}
{% if gating.clamped %}
fn gated(gate: {{ element }}, up: {{ element }}) -> {{ element }} {
    let g = min(gate, {{ element }}({{ gating.limit }}));
    let u = clamp(up, {{ element }}(-{{ gating.limit }}), {{ element }}({{ gating.limit }}));
    return (u + 1.0) * g / (1.0 + exp(-{{ gating.alpha }} * g));
}
{% else %}
{% with activation=gating.activation %}
{% include "activation.wgsl" %}
{% endwith %}

fn gated(gate: {{ element }}, up: {{ element }}) -> {{ element }} {
    return activated(gate) * up;
}
{% endif %}
