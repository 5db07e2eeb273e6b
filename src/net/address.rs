//! Which addresses belong to the whole internet, and which only to somebody's own network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Who an address can be reached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Everyone.
    Public,
    /// This machine alone.
    Loopback,
    /// A network, a link, a group or nobody: everything that the registries of special addresses
    /// keep from the internet, and the providers' metadata services.
    Reserved,
}

/// IPv4 networks (first address, length of the prefix) that are not the internet's.
const RESERVED_V4: [(Ipv4Addr, u32); 17] = [
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Between a provider and its customers.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    // Link-local, with most providers' metadata service.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 31, 196, 0), 24),
    (Ipv4Addr::new(192, 52, 193, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(192, 175, 48, 0), 24),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, and what is kept for the future.
    (Ipv4Addr::new(224, 0, 0, 0), 3),
    // A public address by which one provider's machines reach their host's services.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// IPv6 networks inside `2000::/3` that are not the internet's: protocols (Teredo among them),
/// documentation, and 6to4, which carries an IPv4 address along.
const RESERVED_V6: [(Ipv6Addr, u32); 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// All that is given out as global unicast.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Who can reach the address. An IPv4 address that is written as IPv6 is judged as itself; other
/// ways of carrying one (compatible, NAT64, 6to4, Teredo) are reserved whatever they carry.
pub(super) fn reach(address: IpAddr) -> Reach {
    match address.to_canonical() {
        address if address.is_loopback() => Reach::Loopback,
        IpAddr::V4(address) if RESERVED_V4.iter().any(|net| within_v4(address, *net)) => {
            Reach::Reserved
        }
        IpAddr::V4(_) => Reach::Public,
        IpAddr::V6(address)
            if within_v6(address, GLOBAL_V6)
                && !RESERVED_V6.iter().any(|net| within_v6(address, *net)) =>
        {
            Reach::Public
        }
        IpAddr::V6(_) => Reach::Reserved,
    }
}

fn within_v4(address: Ipv4Addr, (first, prefix): (Ipv4Addr, u32)) -> bool {
    (address.to_bits() ^ first.to_bits()).leading_zeros() >= prefix
}

fn within_v6(address: Ipv6Addr, (first, prefix): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ first.to_bits()).leading_zeros() >= prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(addresses: &[&str], expected: Reach) {
        for text in addresses {
            assert_eq!(reach(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn this_machine() {
        all(
            &["127.0.0.1", "127.255.1.2", "::1", "::ffff:127.0.0.1"],
            Reach::Loopback,
        );
    }

    #[test]
    fn not_the_internet() {
        all(
            &[
                "0.0.0.0",
                "0.1.2.3",
                "10.0.0.1",
                "100.64.0.1",
                "100.100.100.200",
                "100.127.255.255",
                "168.63.129.16",
                "169.254.169.254",
                "172.16.0.1",
                "172.31.255.255",
                "192.0.0.192",
                "192.0.2.1",
                "192.88.99.1",
                "192.168.1.1",
                "198.19.255.255",
                "198.51.100.7",
                "203.0.113.7",
                "224.0.0.1",
                "239.255.255.250",
                "240.0.0.1",
                "255.255.255.255",
                "::",
                "::ffff:10.0.0.1",
                "::ffff:169.254.169.254",
                "::7f00:1",
                "::8.8.8.8",
                "64:ff9b::8.8.8.8",
                "64:ff9b:1::1",
                "100::1",
                "2001::1",
                "2001:10::1",
                "2001:db8::1",
                "2002:7f00:1::",
                "2002:808:808::1",
                "3fff::1",
                "4000::1",
                "5f00::1",
                "fc00::1",
                "fd00:ec2::254",
                "fe80::1",
                "fec0::1",
                "ff02::1",
            ],
            Reach::Reserved,
        );
    }

    #[test]
    fn the_internet() {
        all(
            &[
                "1.1.1.1",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "168.63.129.17",
                "172.15.255.255",
                "172.32.0.0",
                "192.167.255.255",
                "198.17.255.255",
                "198.20.0.0",
                "223.255.255.255",
                "::ffff:8.8.8.8",
                "2001:200::1",
                "2001:4860:4860::8888",
                "2003::1",
                "2606:4700::1",
                "3ffe::1",
            ],
            Reach::Public,
        );
    }
}
