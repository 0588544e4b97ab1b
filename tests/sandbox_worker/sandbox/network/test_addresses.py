"""Where no box is led."""

import socket
from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_worker.sandbox.network.addresses import own_addresses, why_not_public, why_not_usable

INSIDE = [
    *("0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "240.0.0.1"),
    *("224.0.0.251", "239.1.1.1", "255.255.255.255", "192.0.2.1", "198.51.100.7", "203.0.113.80", "192.88.99.1"),
    *("::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "ff0e::1", "2001:db8::1", "100::1"),
    *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b::169.254.169.254"),
    *("64:ff9b::8.8.8.8", "64:ff9b:1::1", "2002:7f00:1::", "2002:0808:0808::1", "2001:0:1::1", "2001:10::1", "4000::1"),
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "151.101.0.223",
    "100.63.255.255",
    "100.128.0.1",
    "172.32.0.1",
    "2606:4700::1111",
    "2a04:4e42::223",
]


@pytest.mark.parametrize("text", INSIDE)
def test_an_address_that_leads_inside_is_refused(text: str) -> None:
    assert why_not_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_an_address_of_the_internet_may_be_used(text: str) -> None:
    assert why_not_public(ip_address(text)) == ""


@given(st.ip_addresses(v=4))
def test_no_form_of_ipv6_makes_an_ipv4_address_usable(address: IPv4Address) -> None:
    number = int(address)
    forms = [number, 0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80]
    assert all(why_not_public(ip_address(form.to_bytes(16))) for form in forms)


@given(st.ip_addresses())
def test_what_is_not_global_never_passes(address: IPv4Address) -> None:
    assert why_not_public(address) or address.is_global


def test_addresses_of_this_host_are_refused_whatever_they_are() -> None:
    assert ip_address("127.0.0.1") in own_addresses()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("1.1.1.1", 53))
        except OSError:
            pytest.skip("this host has no way out")
        own = ip_address(probe.getsockname()[0])
    assert own in own_addresses()
    assert why_not_usable(own)
