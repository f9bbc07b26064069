//! Addresses of mailboxes and of machines.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};

/// The longest local part and domain, in bytes (RFC 5321, 4.5.3.1).
const MAX_LOCAL: usize = 64;
const MAX_DOMAIN: usize = 255;
/// The longest written form of an IPv6 address, in bytes.
const MAX_IP: usize = 45;

/// A local part, and a domain of at least two labels that ends in no number.
pub(super) fn has_email(text: &str) -> bool {
    text.match_indices('@').any(|(at, _)| {
        let (local, domain) = (&text[..at], &text[at + 1..]);
        ends_in_local_part(local) && starts_with_domain(domain)
    })
}

fn ends_in_local_part(before: &str) -> bool {
    let part = |c: &char| c.is_alphanumeric() || "!#$%&'*+/=?^_{|}~.-".contains(*c);
    let local = before.chars().rev().take(MAX_LOCAL).take_while(part);
    // Nearest to the `@` first. A dot may not stand there.
    let mut local = local.peekable();
    local.peek().is_some_and(|last| *last != '.') && local.any(char::is_alphanumeric)
}

fn starts_with_domain(after: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '-' || c == '.';
    let near = after
        .char_indices()
        .take(MAX_DOMAIN)
        .take_while(|(_, c)| part(*c));
    let end = near.last().map_or(0, |(at, c)| at + c.len_utf8());
    let domain = after[..end].trim_end_matches(['.', '-']);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    let Some((rest, top)) = domain.rsplit_once('.') else {
        return false;
    };
    let named = top.chars().count() >= 2 && top.starts_with(char::is_alphabetic);
    named && rest.split('.').all(is_label) && is_label(top)
}

/// An address that is routed on the Internet: private, local and documentation ones
/// lead to nobody.
pub(super) fn has_ip(text: &str) -> bool {
    let bytes = text.as_bytes();
    let part = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'.' || *byte == b':';
    let mut rest = bytes;
    while let Some(start) = rest.iter().position(part) {
        let len = rest[start..].iter().take_while(|byte| part(byte)).count();
        let at = bytes.len() - rest.len() + start;
        let (before, after) = (&bytes[..at], &bytes[at + len..]);
        if len <= MAX_IP && stands_alone(before, after) && is_routed(&bytes[at..at + len]) {
            return true;
        }
        rest = after;
    }
    false
}

fn stands_alone(before: &[u8], after: &[u8]) -> bool {
    let word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    !word(before.last()) && !word(after.first())
}

fn is_routed(text: &[u8]) -> bool {
    let text = str::from_utf8(text).unwrap_or_default();
    let text = text.trim_end_matches(['.', ':']);
    match text.parse() {
        Ok(IpAddr::V6(address)) => is_routed_v6(address),
        Ok(IpAddr::V4(address)) => is_routed_v4(address),
        Err(_) => {
            let with_port = text.parse().map(|with_port: SocketAddrV4| *with_port.ip());
            with_port.is_ok_and(is_routed_v4)
        }
    }
}

fn is_routed_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    // Shared between providers and their customers (RFC 6598).
    let is_shared = first == 100 && (64..128).contains(&second);
    !(first == 0
        || first >= 224
        || is_shared
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation())
}

/// Global unicast, 2000::/3, without 2001:db8::/32, which is for documentation.
fn is_routed_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    first >> 13 == 1 && !(first == 0x2001 && second == 0x0db8)
}
