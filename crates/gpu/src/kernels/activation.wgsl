{# An activation function `activated` of values of the type `element`: f32 or a vector of it. #}
{% if activation == "gelu erf" %}
// erfc(z) for z ≥ 0 with an absolute error below 1.5e-7 (Abramowitz and Stegun, 7.1.26).
fn erfc(z: {{ element }}) -> {{ element }} {
    let t = 1.0 / (1.0 + 0.3275911 * z);
    let sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741
        + t * (-1.453152027 + t * 1.061405429))));
    return sum * exp(-z * z);
}
{% endif %}
{% if activation in ["gelu tanh", "tanh"] %}
// Drivers may compute tanh from exponentials, which overflow; beyond ±15 it is ±1 in f32.
fn bounded_tanh(x: {{ element }}) -> {{ element }} {
    return tanh(clamp(x, {{ element }}(-15.0), {{ element }}(15.0)));
}
{% endif %}

fn activated(x: {{ element }}) -> {{ element }} {
{% if activation == "identity" %}
    return x;
{% elif activation == "silu" %}
    return x / (1.0 + exp(-x));
{% elif activation == "gelu tanh" %}
    return 0.5 * x * (1.0 + bounded_tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
{% elif activation == "gelu erf" %}
    // x / 2 · erfc(-x / √2), which keeps its digits where it is small
    let q = erfc(abs(x) * 0.7071067811865476);
    return 0.5 * x * select(q, 2.0 - q, x >= {{ element }}(0.0));
{% elif activation == "gelu quick" %}
    return x / (1.0 + exp(-1.702 * x));
{% elif activation == "relu" %}
    return max(x, {{ element }}(0.0));
{% elif activation == "relu²" %}
    let y = max(x, {{ element }}(0.0));
    return y * y;
{% elif activation == "sigmoid" %}
    return 1.0 / (1.0 + exp(-x));
{% elif activation == "tanh" %}
    return bounded_tanh(x);
{% elif activation == "softplus" %}
    // ln(1 + t) = 2 artanh(s), by its series
    let t = exp(-abs(x));
    let s = t / (2.0 + t);
    let q = s * s;
    let sum = 1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0
        + q * (1.0 / 9.0 + q * (1.0 / 11.0 + q * (1.0 / 13.0 + q * (1.0 / 15.0)))))));
    return max(x, {{ element }}(0.0)) + 2.0 * s * sum;
{% endif %}
}
