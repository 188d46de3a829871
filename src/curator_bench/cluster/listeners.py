"""The users behind ports of this machine. A client of Ray sends its token in clear text to whoever listens there."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from curator_bench.files.planted import is_trusted

_LISTENS = "0A"
_WORD = 8
_ROOT = 0


def other_user_at(address: str) -> int | None:
    """Uid of another user, neither root nor trusted, who listens at HOST:PORT of this machine; None if there is none.

    None also for another machine's address, and without /proc.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        return None
    for found in _addresses(host.strip("[]"), int(port)):
        if _is_here(found):
            for uid in _owners(found, int(port)):
                if uid != _ROOT and not is_trusted(uid):
                    return uid
    return None


def _addresses(host: str, port: int) -> set[str]:
    try:
        return {str(info[4][0]).partition("%")[0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:
        return set()


def _is_here(address: str) -> bool:
    """True if a socket of this machine may have the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.bind((address, 0))
        return True
    return False


def _owners(address: str, port: int) -> Iterator[int]:
    """Uids of the sockets that listen at the address, or at all addresses."""
    for name in ("tcp", "tcp6"):
        for local, state, uid in _sockets(Path("/proc/net", name)):
            host, _, number = local.partition(":")
            listens_at = _address_of(host)
            is_meant = listens_at.is_unspecified or listens_at == ipaddress.ip_address(address)
            if state == _LISTENS and int(number, 16) == port and is_meant:
                yield uid


def _sockets(table: Path) -> Iterator[tuple[str, str, int]]:
    with suppress(OSError):
        for line in table.read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            yield local, state, int(rest[3])


def _address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Read an address as the kernel writes it: words in the order of the machine's bytes."""
    words = (int(text[at : at + _WORD], 16) for at in range(0, len(text), _WORD))
    found = ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))
    return getattr(found, "ipv4_mapped", None) or found
