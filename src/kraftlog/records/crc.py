"""CRC-32C of any buffer, by the processor's own instruction.

The package's `__init__` imports `importlib.metadata` to find its version, which costs most of a
node's start-up, so its extension module is loaded by itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.types import Buffer


def _load() -> Callable[[Buffer], int]:
    # importlib.util has a function for this, and costs 4 ms to import.
    from importlib.machinery import (
        EXTENSION_SUFFIXES,
        ExtensionFileLoader,
        ModuleSpec,
        PathFinder,
    )

    package = PathFinder.find_spec("crc32c")
    for folder in (package and package.submodule_search_locations) or ():
        for suffix in EXTENSION_SUFFIXES:
            path = f"{folder}/_crc32c{suffix}"
            loader = ExtensionFileLoader("_crc32c", path)
            try:
                module = loader.create_module(ModuleSpec("_crc32c", loader, origin=path))
                loader.exec_module(module)
            except ImportError:
                continue
            function: Callable[[Buffer], int] = module.crc32c
            return function
    from crc32c import crc32c as portable

    return portable


crc32c = _load()
