"""UpdateFeatures: changes feature levels."""

from __future__ import annotations

from kraftlog.config.keys import BROKER
from kraftlog.controller.decision import Decision
from kraftlog.controller.eligible_replicas import disable_elr
from kraftlog.controller.state import ALL_BROKERS, MIN_ISR
from kraftlog.errors import ErrorCode
from kraftlog.metadata.features import ELR_FEATURE, KRAFT_VERSION, OFFERED, SET_BY_RECORDS
from kraftlog.metadata.releases import METADATA_CHANGED
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.metadata_records import ConfigRecord, FeatureLevelRecord
from kraftlog.wire.messages.update_features import UpdatableFeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kraftlog.controller.context import Context
    from kraftlog.controller.state import ControllerState
    from kraftlog.logstate.voters import VoterSet
    from kraftlog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
    from kraftlog.wire.schema import Message

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def is_unsupported_level(level: int, supported: tuple[int, int]) -> bool:
    return not supported[0] <= level <= supported[1]


def decide_update_features(
    state: ControllerState,
    request: UpdateFeaturesRequest,
    context: Context,
) -> Decision:
    """Update features; all updates succeed or none."""
    records: list[Message] = []
    for update in request.feature_updates:
        why = _refusal_reason(state, update, context)
        if why is not None:
            text = f"Invalid update version {update.max_version_level} for feature "
            return Decision([], _refused(f"{text}{update.feature}. {why}"))
        why = _obstacle_to_metadata_version(state, update)
        if why is not None:
            return Decision([], _refused(why))
        if update.feature != KRAFT_VERSION:
            records.append(
                FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
            )
            if update.feature == ELR_FEATURE and update.max_version_level > 0:
                records += cluster_min_isr(state, context.static_config)
            elif update.feature == ELR_FEATURE:
                records += disable_elr(state)
    results = [
        UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE)
        for update in request.feature_updates
    ]
    response = UpdateFeaturesResponse(error_code=ErrorCode.NONE, results=results)
    if request.validate_only:
        return Decision([], response)
    return Decision(records, response, _raised_kraft_version(request, context))


def _raised_kraft_version(request: UpdateFeaturesRequest, context: Context) -> int:
    """The level to which the quorum has to raise kraft.version, or 0."""
    current = context.voters().kraft_version
    levels = [
        update.max_version_level
        for update in request.feature_updates
        if update.feature == KRAFT_VERSION
    ]
    return next((level for level in levels if level > current), 0)


def cluster_min_isr(state: ControllerState, static_config: Mapping[str, str]) -> list[Message]:
    """Records that set min.insync.replicas cluster-wide and unset it per broker, for ELR."""
    cluster = (BROKER, ALL_BROKERS)
    changes: list[tuple[str, str | None]] = [
        (name, None)
        for kind, name in state.configs
        if kind == BROKER and name != ALL_BROKERS and MIN_ISR in state.config(kind, name)
    ]
    if MIN_ISR not in state.config(*cluster):
        changes.insert(0, (ALL_BROKERS, static_config.get(MIN_ISR, "1")))
    return [
        ConfigRecord(resource_type=BROKER, resource_name=name, name=MIN_ISR, value=value)
        for name, value in changes
    ]


def _refused(why: str) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        error_code=ErrorCode.INVALID_UPDATE_VERSION,
        error_message="The update failed for all features since the following feature had "
        f"an error: {why}",
    )


def _refusal_reason(
    state: ControllerState, update: FeatureUpdateKey, context: Context
) -> str | None:
    """Why an update is refused, in Kafka's words where it has some; None if it is accepted."""
    name, level = update.feature, update.max_version_level
    upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    for node, supported in _supported_ranges(state, name):
        if is_unsupported_level(level, supported):
            if supported == (0, 0):
                return f"{node} does not support this feature."
            return f"{node} only supports versions {supported[0]}-{supported[1]}"
    is_kraft = name == KRAFT_VERSION
    current = context.voters().kraft_version if is_kraft else state.features.get(name, 0)
    if level < current and upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if level > current and upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    if is_kraft and level > current:
        return _obstacle_to_kraft_version(
            context.reported_voters(), context.missing_report_reasons(), level
        )
    if is_kraft and level < current:
        return "Can't downgrade the version of this feature."
    return None


def _obstacle_to_metadata_version(state: ControllerState, update: FeatureUpdateKey) -> str | None:
    """Why metadata.version cannot be lowered: a level in between has changed the metadata."""
    current, level = state.features.get(METADATA_VERSION, 0), update.max_version_level
    if update.feature != METADATA_VERSION or METADATA_CHANGED.isdisjoint(
        range(level + 1, current + 1)
    ):
        return None
    why = (
        "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    if not update.allow_downgrade and update.upgrade_type == UNSAFE_DOWNGRADE:
        why = "Unsafe metadata downgrade is not supported in this version."
    return f"Unsupported metadata.version downgrade from {current} to {level}. {why}"


def _obstacle_to_kraft_version(
    voters: VoterSet, missing_report_reasons: Mapping[int, str], level: int
) -> str | None:
    """Why kraft.version cannot be raised with these voters (R11); it can never be lowered."""
    unknown = [voter.key.id for voter in voters.voters if voter.key.directory_id == NULL_UUID]
    if unknown:
        why = [
            f"voter {voter_id} {missing_report_reasons.get(voter_id, 'has not reported it yet')}"
            for voter_id in unknown
        ]
        return f"Directory id must be known for all of the voters: {'; '.join(why)}."
    unable = [str(voter.key.id) for voter in voters.voters if voter.max_version < level]
    if unable:
        return f"Not all voters support it: {', '.join(unable)}."
    if voters.targets is not None:
        return "The voters are being reassigned."
    return None


def _supported_ranges(
    state: ControllerState, feature: str
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Each node, as errors name it, with the lowest and highest level that it supports."""
    local_ranges = OFFERED if feature == KRAFT_VERSION else SET_BY_RECORDS
    yield "Local controller", local_ranges.get(feature, (0, 0))
    for broker in state.brokers.values():
        ranges = {
            entry.name: (
                entry.min_supported_version,
                entry.max_supported_version,
            )
            for entry in broker.features
        }
        yield f"Broker {broker.id}", ranges.get(feature, (0, 0))
    for controller in state.controllers.values():
        ranges = {
            entry.name: (
                entry.min_supported_version,
                entry.max_supported_version,
            )
            for entry in controller.features
        }
        yield f"Controller {controller.controller_id}", ranges.get(feature, (0, 0))
