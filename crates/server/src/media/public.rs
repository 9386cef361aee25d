//! Which addresses the public internet has.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one of the public internet: IANA's registries of special-purpose addresses
/// name the others.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Blocks of IPv4 that are not public: the first address, and the bits of the prefix.
const SPECIAL_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = u32::from(address);
    !SPECIAL_V4
        .iter()
        .any(|&(first, prefix)| (bits ^ u32::from_be_bytes(first)) >> (32 - prefix) == 0)
}

/// Blocks within 2000::/3 that are not public, or have an address of IPv4 in them.
const SPECIAL_V6: [(u16, u16, u32); 4] =
    [(0x2001, 0, 23), (0x2001, 0x0db8, 32), (0x2002, 0, 16), (0x3fff, 0, 20)];

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let first = |address: [u16; 8]| u32::from(address[0]) << 16 | u32::from(address[1]);
    let bits = first(address.segments());
    let is_special = SPECIAL_V6.iter().any(|&(one, two, prefix)| {
        (bits ^ (u32::from(one) << 16 | u32::from(two))) >> (32 - prefix) == 0
    });
    bits >> 29 == 1 && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_not_public() {
        let public = |text: &str| is_public(text.parse().unwrap());
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "fc00::1",
            "fe80::1",
            "ff02::1",
            "64:ff9b::a00:1",
            "2001::1",
            "2001:db8::1",
            "2002:a00:1::1",
            "3fff::1",
            "100::1",
        ] {
            assert!(!public(text), "{text}");
        }
        for text in [
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860::8888",
            "::ffff:8.8.8.8",
        ] {
            assert!(public(text), "{text}");
        }
    }
}
