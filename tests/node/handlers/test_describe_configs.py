"""DescribeConfigs returns the requested keys, or all."""

from __future__ import annotations

import pytest

from kraftlog.config.keys import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import describe_configs as api
from tests.node.frame_client import ask_settled, make_host


def _described_keys(kind: int, name: str, keys: list[str] | None) -> list[str]:
    host = make_host(demo=1)
    resource = api.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = api.DescribeConfigsRequest(resources=[resource])
    (result,) = ask_settled(host, ApiKey.DESCRIBE_CONFIGS, 4, request).results
    return [entry.name for entry in result.configs]


@pytest.mark.parametrize(
    ("kind", "name"), [(TOPIC, "demo"), (BROKER, "1"), (GROUP, "g"), (CLIENT_METRICS, "m")]
)
def test_null_and_an_empty_list_of_keys_mean_all(kind: int, name: str) -> None:
    all_keys = _described_keys(kind, name, None)
    assert len(all_keys) > 1
    assert _described_keys(kind, name, []) == all_keys


def test_only_the_requested_keys_are_described() -> None:
    assert _described_keys(TOPIC, "demo", ["retention.ms", "no.such.key"]) == ["retention.ms"]
