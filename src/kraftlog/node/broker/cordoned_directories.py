"""`CordonedDirectories`: the log directories that take no new replicas (KIP-1066)."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.config.layers import ConfigLayers
    from kraftlog.ports.logs import Directory
    from kraftlog.types import Uuid

KEY, ALL = "cordoned.log.dirs", "*"


class CordonedDirectories:
    """The directories in `cordoned.log.dirs`, static or dynamic; recomputed when it changes."""

    def __init__(
        self, layers: Callable[[], ConfigLayers], directories: Callable[[], Sequence[Directory]]
    ) -> None:
        self._layers = layers
        self._directories = directories
        self._computed_from: ConfigLayers | None = None
        self._ids: tuple[Uuid, ...] = ()

    def ids(self) -> tuple[Uuid, ...]:
        """The ids of the cordoned directories."""
        layers = self._layers()
        if layers is not self._computed_from:
            self._computed_from = layers
            texts = layers.value(KEY) or ()
            directories = self._directories()
            paths = {_path_of(text, directories) for text in texts}
            self._ids = tuple([it.id for it in directories if ALL in texts or it.path in paths])
        return self._ids


def _path_of(text: str, directories: Sequence[Directory]) -> str:
    """The absolute path of the log directory that `text` names, maybe by a relative path."""
    text = text.rstrip("/").removeprefix("./")
    if text.startswith("/"):
        return text
    # Relative paths all begin in the same directory, so the shortest match is the right one.
    return min([it.path for it in directories if it.path.endswith(f"/{text}")], key=len, default="")
