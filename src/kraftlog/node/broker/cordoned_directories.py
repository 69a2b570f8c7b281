"""`CordonedDirectories`: the log directories that take no new replicas (KIP-1066)."""

from __future__ import annotations

import os

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.config.layers import ConfigLayers
    from kraftlog.ports.logs import Directory
    from kraftlog.types import Uuid

NAME, ALL = "cordoned.log.dirs", "*"


class CordonedDirectories:
    """What `cordoned.log.dirs` names, in the file or dynamically; recomputed when that changes."""

    def __init__(
        self, layers: Callable[[], ConfigLayers], directories: Callable[[], Sequence[Directory]]
    ) -> None:
        self._layers = layers
        self._directories = directories
        self._known: ConfigLayers | None = None
        self._ids: tuple[Uuid, ...] = ()

    def ids(self) -> tuple[Uuid, ...]:
        """The ids of the cordoned directories."""
        layers = self._layers()
        if layers is not self._known:
            self._known = layers
            texts = layers.value(NAME) or ()
            # A directory has an absolute path, whatever log.dirs has.
            paths = {os.path.abspath(text) for text in texts if text != ALL}
            self._ids = tuple(
                [it.id for it in self._directories() if ALL in texts or it.path in paths]
            )
        return self._ids
