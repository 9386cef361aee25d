{# Parameters that the host writes (sample/params.rs): FIELDS words a want, then lists to which some
   of the fields point. #}
var<storage, read> params: array<u32>;

const NONE = 0xffffffffu;
const FIELDS = {{ fields | length }}u;
{% for field in fields %}
const {{ field }} = {{ loop.index0 }}u;
{% endfor %}
const LIKELIEST = {{ kinds.likeliest }}u;
const FEW = {{ kinds.few }}u;
const MANY = {{ kinds.many }}u;

fn param(want: u32, field: u32) -> u32 {
    return params[want * FIELDS + field];
}
