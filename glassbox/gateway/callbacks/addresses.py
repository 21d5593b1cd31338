"""Who may be called back: addresses (URLs) of hosts on a list, and of these only what the public Internet reaches."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# Narrower than RFC 3986: what any two parsers could read differently (user names, backslashes, fragments, other than
# ASCII) is not let in, so that the host that is checked is the host that is called.
_HOST = r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]"
_URL = re.compile(rf"(https?)://({_HOST})(?::([0-9]{{1,5}}))?([/?][\x21\x22\x24-\x5b\x5d-\x7e]*)?", re.IGNORECASE)
_ENTRY = re.compile(rf"(\*\.)?({_HOST})(?::([0-9]{{1,5}}))?", re.IGNORECASE)
_DEFAULT_PORTS = {"https": 443, "http": 80}

_UNICAST = ipaddress.ip_network("2000::/3")
_TUNNELS = (ipaddress.ip_network("2001::/23"), ipaddress.ip_network("2002::/16"))
"""IETF protocol assignments with Teredo (RFC 2928, 4380), and 6to4 (RFC 3056): what is behind them cannot be told."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""RFC 6052: the last 32 bits are the IPv4 address that is reached."""
_V4_SPECIAL = (ipaddress.ip_network("192.0.0.0/24"), ipaddress.ip_network("192.88.99.0/24"))
"""IETF protocol assignments and 6to4 relays (RFC 6890), which `is_global` passes."""


class NotAllowed(ValueError):
    """An address that may not be called; the message says why and quotes nothing of it."""


@dataclass(frozen=True)
class Target:
    """An address that may be called. `host`: in lower case, an IPv6 address in brackets."""

    url: str
    host: str
    port: int


@dataclass(frozen=True)
class AllowedHost:
    """`name`: in lower case; with `below`, every name under it and not itself. `port`: None is that of the scheme."""

    name: str
    below: bool
    port: int | None

    def covers(self, host: str, port: int, default: int) -> bool:
        named = host.endswith(f".{self.name}") if self.below else host == self.name
        return named and port == (default if self.port is None else self.port)


def allowed_hosts(text: str) -> tuple[AllowedHost, ...]:
    """A list such as `hooks.example.com, *.example.org, 10.1.2.3:8443`. Raises ValueError."""
    found = []
    for entry in filter(None, map(str.strip, text.split(","))):
        match = _ENTRY.fullmatch(entry)
        if match is None or not _is_port(match[3]):
            raise ValueError("must be HOST, HOST:PORT or *.HOST, or several with commas between them")
        found.append(AllowedHost(match[2].lower(), match[1] is not None, int(match[3]) if match[3] else None))
    return tuple(found)


def _is_port(text: str | None) -> bool:
    return text is None or 0 < int(text) < 65536


@dataclass(frozen=True)
class CallbackRules:
    """`hosts`: who may be called at all. `allow_http`: without TLS too. `allow_private`: also where `is_public` is
    false."""

    hosts: Sequence[AllowedHost] = ()
    allow_http: bool = False
    allow_private: bool = False

    def target(self, url: str) -> Target:
        """Raises `NotAllowed`."""
        match = _URL.fullmatch(url)
        if match is None or not _is_port(match[3]):
            raise NotAllowed("must be an https address in ASCII, without user name and fragment")
        scheme, host = match[1].lower(), match[2].lower()
        default = _DEFAULT_PORTS[scheme]
        port = int(match[3]) if match[3] else default
        if scheme == "http" and not self.allow_http:
            raise NotAllowed("must be an https address")
        if not any(allowed.covers(host, port, default) for allowed in self.hosts):
            raise NotAllowed("its host is not among those that this installation calls back")
        return Target(url, host, port)

    def may_reach(self, address: str) -> bool:
        """Whether a host's IP address may be connected to."""
        return self.allow_private or is_public(address)


def is_public(address: str) -> bool:
    """Whether an IP address is a host's on the public Internet: not of a private network, this machine, a link, a
    group, a cloud's metadata service, nor one of these behind a translation."""
    try:
        ip: IpAddress = ipaddress.ip_address(address)
    except ValueError:  # one with a zone is of a link
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif ip in _NAT64:
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        elif ip not in _UNICAST or any(ip in network for network in _TUNNELS):
            return False
    if isinstance(ip, ipaddress.IPv4Address) and any(ip in network for network in _V4_SPECIAL):
        return False
    return ip.is_global and not ip.is_multicast and not (ip.version == 4 and ip.is_reserved)
