"""Feature levels of a cluster that this version does not support: which, and what to do."""

from __future__ import annotations

from kraftlog.metadata.features import OFFERED
from kraftlog.metadata.image import ReplayError
from kraftlog.metadata.releases import METADATA_VERSIONS
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.metadata.versions import METADATA_LEVELS
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnsupportedLevelError(ReplayError):
    """metadata.version was raised beyond the highest level that this version supports."""


def refuse_newer_metadata(level: int) -> None:
    """Raise UnsupportedLevelError for a metadata.version above the highest supported level.

    Such a level allows records that this version does not know. A lower level is no error here:
    the log of a cluster that was upgraded begins with it.
    """
    if level > METADATA_LEVELS[1]:
        raise UnsupportedLevelError(_metadata_text(level))


def metadata_obstacle(features: Mapping[str, int]) -> str:
    """Why a controller cannot write records for these levels; empty if it can."""
    level = features.get(METADATA_VERSION, 0)
    lowest, highest = METADATA_LEVELS
    return "" if lowest <= level <= highest else _metadata_text(level)


def broker_obstacle(features: Mapping[str, int]) -> str:
    """Why a broker cannot register at these levels, and how to change them; empty if it can."""
    if METADATA_VERSION not in features:
        return ""  # nothing is replayed yet
    reasons = [metadata_obstacle(features)]
    highest = {name: OFFERED.get(name, (0, 0))[1] for name in sorted(features)}
    excessive = [
        name for name, most in highest.items() if name != METADATA_VERSION and features[name] > most
    ]
    if excessive:
        levels = ", ".join([f"{name}={features[name]}" for name in excessive])
        flags = " ".join([f"--feature {name}={highest[name]}" for name in excessive])
        reasons.append(
            f"the cluster has {levels}, which brokers of this version of kraftlog do not support. "
            "While the program that ran here before runs, lower it: kafka-features "
            f"--bootstrap-server HOST:PORT downgrade {flags}"
        )
    return ". ".join(filter(None, reasons))


def level_name(level: int) -> str:
    """A level of metadata.version with its name, if it is known."""
    name = METADATA_VERSIONS.get(level)
    return str(level) if name is None else f"{name} ({level})"


def _metadata_text(level: int) -> str:
    lowest, highest = METADATA_LEVELS
    text = (
        f"{METADATA_VERSION} is {level_name(level)}, and this version of kraftlog supports "
        f"{level_name(lowest)} to {level_name(highest)}. "
    )
    if level > highest:
        return text + (
            "Start a version of kraftlog that supports it, or the program that ran here before. "
            "Only a controller that supports both levels can lower it (kafka-features downgrade), "
            "and it refuses if the metadata has changed in between"
        )
    return text + (
        "Start the program that ran here before, and raise the level with kafka-features "
        f"--bootstrap-controller HOST:PORT upgrade --feature {METADATA_VERSION}={lowest}"
    )
