"""One form for each host."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_worker.sandbox.network.hostname import HostnameError, normal_host, split_port


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("PyPI.org", "pypi.org"),
        ("pypi.org.", "pypi.org"),
        ("Bücher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("\uff50ypi\u3002org", "pypi.org"),
        ("1.1.1.1", "1.1.1.1"),
        ("[2606:4700:0:0::1111]", "2606:4700::1111"),
        ("2606:4700::1111", "2606:4700::1111"),
    ],
)
def test_a_host_has_one_form(written: str, normal: str) -> None:
    assert normal_host(written) == normal


@pytest.mark.parametrize(
    "written",
    [
        "",
        ".",
        "a..b",
        "-a.org",
        "a-.org",
        "a_b.org",
        "a b.org",
        "a\0.org",
        "a" * 64 + ".org",
        "a." * 130 + "org",
        "*.org",
    ],
)
def test_what_is_no_name_is_refused(written: str) -> None:
    with pytest.raises(HostnameError):
        normal_host(written)


@pytest.mark.parametrize(
    "written",
    ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.0x1", "1.1.1.1.", "[1.1.1.1]", "fe80::1%eth0", "a.0x"],
)
def test_other_ways_to_write_an_address_are_refused(written: str) -> None:
    with pytest.raises(HostnameError):
        normal_host(written)


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("a.org", ("a.org", None)),
        ("a.org:8443", ("a.org", 8443)),
        ("[::1]:80", ("[::1]", 80)),
        ("[::1]", ("[::1]", None)),
        ("::1", ("::1", None)),
    ],
)
def test_a_port_is_told_from_an_address(written: str, parts: tuple[str, int | None]) -> None:
    assert split_port(written) == parts


@pytest.mark.parametrize("port", ["", "0", "65536", "080", "+80", "\uff18\uff10", "80 ", "http"])
def test_a_port_is_a_plain_number(port: str) -> None:
    with pytest.raises(HostnameError):
        split_port(f"a.org:{port}")


@given(st.text(max_size=80))
def test_no_text_breaks_the_readers(text: str) -> None:
    try:
        host, _ = split_port(text)
        normal = normal_host(host)
    except HostnameError:
        return
    assert normal_host(normal) == normal
    assert normal.isascii()
