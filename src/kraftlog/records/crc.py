"""CRC-32C of any buffer, with the processor's instruction.

The extension module of the crc32c package is loaded directly, because the package's `__init__`
imports `importlib.metadata`, which would take most of a node's start-up time.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.types import Buffer


def _load() -> Callable[[Buffer], int]:
    # importlib.util has a function for this, but takes 4 ms to import.
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
