"""Which addresses a box may be led to: those of the public internet, and none of this host's own.

Written out, because `ipaddress.is_global` lets pass what leads back inside: addresses with an IPv4 address in them,
multicast, and what a cloud answers under a public address.
"""

import socket
from ipaddress import ip_address, ip_network

import psutil

from sandbox_worker.sandbox.network.hostname import Address

_UNICAST = ip_network("2000::/3")
_REFUSED = {
    "a private one": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
    "one of the host itself": ("127.0.0.0/8", "::1/128"),
    "no address": ("0.0.0.0/8", "::/128"),
    "one of the link": ("169.254.0.0/16", "fe80::/10"),
    "one behind a provider's translation": ("100.64.0.0/10",),
    "the metadata service of a cloud": ("168.63.129.16/32",),
    "a multicast one": ("224.0.0.0/4", "ff00::/8"),
    "an IPv4 address in disguise": (
        *("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96"),  # compatible, mapped, translated
        *("64:ff9b::/96", "64:ff9b:1::/48"),  # NAT64
        *("2002::/16", "192.88.99.0/24", "2001::/32"),  # 6to4 and its relays, Teredo
    ),
    "a reserved one": (
        *("192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4"),
        *("192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24"),
        *("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20", "100::/64", "5f00::/16"),
    ),
}
REFUSED = tuple((ip_network(text), why) for why, texts in _REFUSED.items() for text in texts)


def why_not_public(address: Address) -> str:
    """In words; empty for one of the public internet."""
    for network, why in REFUSED:
        if address in network:
            return why
    if not address.is_global or address.is_multicast or (address.version == 6 and address not in _UNICAST):
        return "a reserved one"
    return ""


def why_not_usable(address: Address) -> str:
    """The same, and none of this host: its addresses are read each time, for they come and go."""
    return why_not_public(address) or ("one of the host itself" if address in own_addresses() else "")


def own_addresses() -> frozenset[Address]:
    families = (socket.AF_INET, socket.AF_INET6)
    entries = [entry for card in psutil.net_if_addrs().values() for entry in card if entry.family in families]
    return frozenset(ip_address(entry.address.partition("%")[0]) for entry in entries)
