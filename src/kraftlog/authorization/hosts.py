"""The hosts of ACLs: an address as Java prints it, a network in CIDR notation, or all."""

from __future__ import annotations

import re

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    #: A network: the size of its addresses and of its prefix in bits, and that prefix.
    Network = tuple[int, int, int]

_IPV4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)
_MAPPED = "::ffff:"


def java_address(host: str) -> str:
    """The address of a client as Java prints it, and so as ACLs name it: 0:0:0:0:0:0:0:1."""
    if ":" not in host:
        return host
    address, percent, scope = host.strip("[]").partition("%")
    if address.lower().startswith(_MAPPED) and "." in address:
        return address[len(_MAPPED) :]
    number = address_number(address)
    if number is None:
        return host
    groups = [f"{number[1] >> shift & 0xFFFF:x}" for shift in range(112, -16, -16)]
    return ":".join(groups) + percent + scope


def address_number(address: str) -> tuple[int, int] | None:
    """The size of an address in bits and the address as a number; None if it is none."""
    if ":" in address:
        from ipaddress import IPv6Address  # slow to import, and few use it

        try:
            return 128, int(IPv6Address(address.partition("%")[0]))
        except ValueError:
            return None
    matched = _IPV4.fullmatch(address)
    if matched is None or any(int(each) > 255 for each in matched.groups()):
        return None
    return 32, int.from_bytes(map(int, matched.groups()), "big")


def network_of(host: str) -> Network | None:
    """The network that an ACL names; None if it names something else."""
    address, slash, size = host.partition("/")
    if not slash or not re.fullmatch(r"\d{1,3}", size, re.ASCII):
        return None
    number = address_number(address)
    if number is None or int(size) > number[0]:
        return None
    bits = number[0]
    return bits, int(size), number[1] >> (bits - int(size))
