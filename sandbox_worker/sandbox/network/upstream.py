"""Connects to a host that is on the list: its name is resolved once, and exactly a checked address is connected to."""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

from sandbox_worker.sandbox.network.hostname import Address, literal
from sandbox_worker.sandbox.network.request import Asked
from sandbox_worker.sandbox.network.verdict import NoPassageError, Verdict

Resolve = Callable[[str], list[Address]]
"""A name's addresses, in the order to try them. May block; raises OSError."""
WhyNot = Callable[[Address], str]
"""Why an address may not be used, in words; empty if it may. Is asked in a thread, and may block."""

LOOKUPS = 32
"""At once, of all boxes."""
LOOKUPS_OF_A_BOX = 4
_MOST_TRIED = 4


def resolve_by_system(name: str) -> list[Address]:
    """The dot at the end makes the name absolute: no search list of this host may turn it into another."""
    flags = socket.AI_ADDRCONFIG
    found = socket.getaddrinfo(f"{name}.", None, type=socket.SOCK_STREAM, flags=flags)
    return [ip_address(entry[4][0]) for entry in found]


class Upstreams:
    """One for all boxes; lives on the proxy's loop."""

    def __init__(self, resolve: Resolve, why_not: WhyNot) -> None:
        self._resolve = resolve
        self._why_not = why_not
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="box-network-lookup")
        self._running: set[asyncio.Future[list[Address]]] = set()

    def close(self) -> None:
        """A lookup that is under way ends by the time limit of the system's resolver; nobody hears of it."""
        for lookup in self._running:
            lookup.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def connect(self, asked: Asked, lookups: asyncio.Semaphore, *, seconds: float) -> socket.socket:
        """lookups bounds those of one box. Raises NoPassageError."""
        try:
            async with asyncio.timeout(seconds):
                addresses = await self._addresses(asked, lookups)
                return await _first_that_answers(asked, addresses[:_MOST_TRIED], seconds / _MOST_TRIED)
        except TimeoutError as error:
            raise unreachable(asked, f"nothing was heard of it in {seconds:g} s") from error

    async def _addresses(self, asked: Asked, lookups: asyncio.Semaphore) -> list[Address]:
        await lookups.acquire()
        lookup = asyncio.wrap_future(self._threads.submit(self._checked, asked))
        self._running.add(lookup)
        lookup.add_done_callback(self._running.discard)
        lookup.add_done_callback(lambda _: lookups.release())
        return await asyncio.shield(lookup)

    def _checked(self, asked: Asked) -> list[Address]:
        """All of them must be fit: a name that leads inside as well is not to be trusted."""
        written = literal(asked.host)
        try:
            addresses = self._resolve(asked.host) if written is None else [written]
        except (OSError, UnicodeError) as error:
            raise unreachable(asked, "no address was found for this name", str(error)) from error
        for address in addresses:
            if why := self._why_not(address):
                words = f"{asked.host} leads to an address that is not of the public internet"
                raise NoPassageError(Verdict.ADDRESS_NOT_PUBLIC, words, f"{address} is {why}")
        return addresses


async def _first_that_answers(asked: Asked, addresses: list[Address], seconds: float) -> socket.socket:
    why = "this name has no address"
    for address in addresses:
        try:
            async with asyncio.timeout(seconds):
                return await _connect(address, asked.port)
        except OSError as error:  # a time-out too
            why = error.strerror or f"no answer in {seconds:g} s"
    raise unreachable(asked, why)


async def _connect(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connection, (str(address), port))
    except BaseException:
        connection.close()
        raise
    return connection


def unreachable(asked: Asked, why: str, detail: str = "") -> NoPassageError:
    words = f"{asked.host}:{asked.port} is on this task's list of hosts, but cannot be reached: {why}"
    return NoPassageError(Verdict.UNREACHABLE, words, detail)
