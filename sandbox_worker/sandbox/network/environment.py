"""What a box's commands are told, so that their clients find the proxy."""

PORT = 3128
"""At 127.0.0.1 inside the box."""


def proxy_environment() -> tuple[tuple[str, str], ...]:
    """For BoxSpec.env. In both cases: some clients read only the small ones, some only the large."""
    address = f"http://127.0.0.1:{PORT}"
    values = (("http_proxy", address), ("https_proxy", address), ("no_proxy", "localhost,127.0.0.1,::1"))
    return tuple((form, value) for name, value in values for form in (name, name.upper()))
