"""What a list of hosts allows, and which lists are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_worker.sandbox.network.allowlist import Allowlist, AllowlistError, PatternError


def test_a_name_allows_itself_alone_at_the_ports_of_the_web() -> None:
    hosts = Allowlist.parse(["PyPI.org."])
    assert hosts.ports("pypi.org") == {80, 443}
    for other in ("www.pypi.org", "xpypi.org", "pypi.org.evil.net", "org", "pypi.or"):
        assert not hosts.ports(other)


def test_a_star_allows_names_below_at_any_depth_and_not_the_name() -> None:
    hosts = Allowlist.parse(["*.pythonhosted.org"])
    assert hosts.ports("files.pythonhosted.org")
    assert hosts.ports("a.b.pythonhosted.org")
    assert not hosts.ports("pythonhosted.org")
    assert not hosts.ports("evilpythonhosted.org")


def test_a_port_that_is_written_is_the_only_one() -> None:
    assert Allowlist.parse(["pkg.example:8443"]).ports("pkg.example") == {8443}
    both = Allowlist.parse(["pkg.example:8443", "pkg.example"])
    assert both.ports("pkg.example") == {80, 443, 8443}


def test_an_international_name_is_the_same_in_both_forms() -> None:
    assert Allowlist.parse(["*.bücher.example"]).ports("www.xn--bcher-kva.example")


def test_a_public_address_is_allowed_where_it_is_named() -> None:
    hosts = Allowlist.parse(["1.1.1.1", "[2606:4700:0::1111]:853"])
    assert hosts.ports("1.1.1.1") == {80, 443}
    assert hosts.ports("2606:4700::1111") == {853}


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        *(
            ("*", "*.example.org"),
            ("foo.*.org", "*.example.org"),
            ("*foo.org", "*.example.org"),
            ("*.*.org", "*.example.org"),
        ),
        *(("*.com", "anybody"), ("*.co.uk", "anybody"), ("*.github.io", "anybody"), ("*.amazonaws.com", "anybody")),
        *(("*.s3.eu-west-1.amazonaws.com", "anybody"), ("*.windows.net", "anybody"), ("*.org.", "anybody")),
        *(("https://pypi.org", "host alone"), ("pypi.org/simple", "host alone"), ("me@pypi.org", "host alone")),
        *(
            ("pypi.org, a.org", "white space"),
            (" pypi.org", "white space"),
            ("a.org\n", "white space"),
            ("a\0.org", "control"),
        ),
        *(
            ("10.0.0.1", "private"),
            ("169.254.169.254", "link"),
            ("[::1]:80", "host itself"),
            ("::ffff:1.1.1.1", "disguise"),
        ),
        *(
            ("127.1", "address"),
            ("0x7f.0.0.1", "address"),
            ("localhost", "full name"),
            ("*.", "no name"),
            ("", "no name"),
        ),
        *(("pypi.org:0", "65535"), ("pypi.org:99999", "65535"), ("pypi.org:", "65535"), ("*.1.1.1.1", "address")),
    ],
)
def test_a_bad_pattern_is_refused_with_the_way_out(pattern: str, says: str) -> None:
    with pytest.raises(PatternError) as caught:
        Allowlist.parse(["pypi.org", pattern])
    assert caught.value.pattern == pattern
    assert caught.value.mend
    assert repr(pattern) in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize("count", [0, 257])
def test_a_list_has_some_patterns_and_not_too_many(count: int) -> None:
    with pytest.raises(AllowlistError):
        Allowlist.parse(f"host{number}.example" for number in range(count))


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        (pattern,) = Allowlist.parse([text]).patterns
    except PatternError:
        return
    assert "*" not in pattern.host
    assert "." in pattern.host or ":" in pattern.host
