"""The feature levels of Kafka's releases, and the dependencies between levels.

The levels that kraftlog supports are in `features`.
"""

from __future__ import annotations

from kraftlog.errors import ConfigError
from kraftlog.metadata.features import ELR_FEATURE, GROUP_VERSION, KRAFT_VERSION
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The names of metadata.version 7 and up. The last name of a release stands for the release.
_NAMES = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2",
    "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0",
    "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
    "4.4-IV0", "4.4-IV1", "4.4-IV2",
)  # fmt: skip
#: metadata.version -> its name.
METADATA_VERSIONS = dict(enumerate(_NAMES, 7))
LATEST = max(METADATA_VERSIONS)

#: Levels that come with new metadata: the cluster never goes back from one to a level below it.
METADATA_CHANGED = frozenset((7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33))

#: Feature -> level -> the first metadata.version for which it is the default.
FEATURES = {
    KRAFT_VERSION: {0: 7, 1: 21},
    "transaction.version": {0: 7, 1: 24, 2: 24},
    GROUP_VERSION: {0: 7, 1: 22},
    ELR_FEATURE: {0: 7, 1: 26},
    "share.version": {0: 7, 1: 28, 2: 31},
    "streams.version": {0: 7, 1: 29},
}
#: (feature, level) -> required levels of other features.
DEPENDENCIES = {(ELR_FEATURE, 1): {METADATA_VERSION: 23}}


def release_level(text: str) -> int:
    """The metadata.version of `4.3` or `4.3-IV0`."""
    short = ".".join(text.split(".")[:2])
    for level in reversed(METADATA_VERSIONS):
        name = METADATA_VERSIONS[level]
        if text == name or name.startswith(f"{short}-IV"):
            return level
    names = ", ".join(METADATA_VERSIONS.values())
    raise ConfigError(f"unknown release {text}; expected one of {names}")


def default_levels(metadata_level: int) -> dict[str, int]:
    """Default feature levels of a new cluster with that metadata.version."""
    return {
        name: max(level for level, since in levels.items() if since <= metadata_level)
        for name, levels in FEATURES.items()
    }


def parse_feature(text: str) -> tuple[str, int]:
    """Parse `feature=level` with a feature and level of Kafka."""
    name, equals, level = text.partition("=")
    if not equals or not level.isdecimal():
        raise ConfigError(f"--feature {text}: expected feature=level")
    levels = METADATA_VERSIONS if name == METADATA_VERSION else FEATURES.get(name)
    if levels is None:
        names = ", ".join([METADATA_VERSION, *FEATURES])
        raise ConfigError(f"--feature {text}: expected one of {names}")
    if int(level) not in levels:
        raise ConfigError(f"--feature {text}: expected a level from {min(levels)} to {max(levels)}")
    return name, int(level)


def chosen_levels(
    release: str | None, features: Mapping[str, int], supported: Mapping[str, tuple[int, int]]
) -> dict[str, int]:
    """All feature levels of a new cluster except kraft.version; `features` overrides defaults.

    Other features get the default level of the release, but at most the highest that `supported`
    has for them.
    """
    chosen = dict(features)
    if release is not None and METADATA_VERSION in chosen:
        raise ConfigError(f"give --release-version or --feature {METADATA_VERSION}, not both")
    level = chosen.pop(METADATA_VERSION, None)
    if level is None:
        level = LATEST if release is None else release_level(release)
    levels = {METADATA_VERSION: level}
    for name, default_level in default_levels(level).items():
        if name != KRAFT_VERSION:
            levels[name] = chosen.get(name, min(default_level, supported.get(name, (0, 0))[1]))
    for name, wanted in levels.items():
        lowest, highest = supported.get(name, (0, 0))
        if not lowest <= wanted <= highest:
            what = f"{lowest} to {highest}" if lowest < highest else str(lowest)
            raise ConfigError(f"{name}={wanted}: this version supports only {what}")
    _check_dependencies(levels)
    return levels


def _check_dependencies(levels: Mapping[str, int]) -> None:
    for (name, level), needed in DEPENDENCIES.items():
        for other, least in needed.items():
            if levels.get(name) == level and levels[other] < least:
                raise ConfigError(f"{name}={level} requires at least {other}={least}")
