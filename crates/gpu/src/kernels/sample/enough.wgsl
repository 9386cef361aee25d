{# The sum of weights that top-p must reach: at least 1, so that the likeliest token is kept; above
   every sum where top-p keeps all. #}
fn enough_of(total: vec3<u32>, top_p: u32) -> vec3<u32> {
    if (top_p == 0xffffffffu) {
        return vec3(0xffffffffu);
    }
    // total · top_p / 2³² = high · top_p + low · top_p / 2³²
    let low = total.x | (total.y << 20u);
    let high = (total.y >> 12u) | (total.z << 8u);
    let part = mulhi(low, top_p);
    let product = high * top_p;
    let sum = product + part;
    let more = mulhi(high, top_p) + select(0u, 1u, sum < part);
    let enough = vec3(sum & 0xfffffu, (sum >> 20u) | ((more & 0xffu) << 12u), more >> 8u);
    return select(enough, vec3(1u, 0u, 0u), all(enough == vec3(0u)));
}
