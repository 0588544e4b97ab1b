"""What one box may take of the proxy. Each bound is the box's own: at it, it waits or is refused, and nobody else."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Caps:
    connections: int = 64
    """At once; more wait in the kernel's queue of the box."""
    connections_a_second: int = 100
    """After a burst of as many."""
    up_bytes: int = 256 * 2**20
    """To all hosts, while the box lives."""
    down_bytes: int = 4 * 2**30
    head_seconds: float = 10.0
    """For a request's head, and again for the first message of TLS."""
    reach_seconds: float = 20.0
    """To find a host's address and connect to it."""
    idle_seconds: float = 120.0
    """Without a byte either way."""
    records: int = 1000
    """Decisions kept: the first half and the last half."""
