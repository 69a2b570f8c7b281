"""Finds a part of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from kraftlog.part import Part
    from tests.virtual_host import VirtualHost

AnyPart = TypeVar("AnyPart", bound="Part")


def part_of(host: VirtualHost, kind: type[AnyPart]) -> AnyPart:
    """The only part of this kind."""
    [part] = [part for part in host.node.parts if isinstance(part, kind)]
    return part
