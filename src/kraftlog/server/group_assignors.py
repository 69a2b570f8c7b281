"""Finds the assignors of group.consumer.assignors: built-in ones, and those of other packages.

Other packages are only asked for names that are not built in, as that takes longer than the rest
of a start.
"""

from __future__ import annotations

from kraftlog.config.combinations import ASSIGNORS_OF_PACKAGES
from kraftlog.errors import ConfigError, message_of
from kraftlog.groups.assignors.builtin import BUILTIN_ASSIGNORS
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.groups.assignors.interface import Assignor

KEY = "group.consumer.assignors"


def find_assignors(names: Sequence[str]) -> dict[str, Assignor]:
    """The assignors by name, in this order; ConfigError if there is none of a name."""
    found: dict[str, Assignor] = {}
    for name in names:
        if name in found:
            raise ConfigError(f"{KEY}={','.join(names)}: {name} is there twice")
        found[name] = BUILTIN_ASSIGNORS.get(name) or _of_other_package(name)
    return found


def _of_other_package(name: str) -> Assignor:
    from importlib.metadata import entry_points

    from kraftlog.groups.assignors.own import checked

    offered = entry_points(group=ASSIGNORS_OF_PACKAGES)
    if name not in offered.names:
        raise ConfigError(
            f"{KEY}={name}: expected one of {', '.join([*BUILTIN_ASSIGNORS, *offered.names])}, or "
            f"the name of an entry point {ASSIGNORS_OF_PACKAGES} of an installed package"
        )
    try:
        function = offered[name].load()
    except Exception as error:
        raise ConfigError(f"{KEY}={name}: {message_of(error)}") from error
    if not callable(function):
        raise ConfigError(f"{KEY}={name}: {function!r} is not a function")
    return checked(name, function)
