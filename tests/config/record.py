"""Records the DescribeConfigs responses of a Kafka broker in `described.json`.

    python -m tests.config.record

It formats and starts a broker, sets the configs under "given" in that file, and describes each
resource.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import tempfile
from typing import TYPE_CHECKING, Any

from kraftlog.cli import main as kraftlog
from kraftlog.config.keys import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages import create_topics, describe_configs, incremental_alter_configs
from tests.interop.kafka_broker import start_kafka
from tests.ports import free_ports

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

PATH = os.path.join(os.path.dirname(__file__), "described.json")
NODE = "1"
#: Name in the file -> resource type and name.
RESOURCES = {
    "topic": (TOPIC, "t"),
    "broker": (BROKER, NODE),
    "all brokers": (BROKER, ""),
    "group": (GROUP, "g"),
    "client metrics": (CLIENT_METRICS, "m"),
}
_LENGTH = struct.Struct(">i")
_RESPONSE_HEADER_BYTES = 5  # correlation id and tags
SET = 0


class Connection:
    """A connection to a broker; one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._responses = self._socket.makefile("rb")

    def call(self, api_key: int, version: int, request: Message, response: type[Any]) -> Any:
        pieces = request_frame(APIS[api_key], version, 1, "recorder", request)
        self._socket.sendall(b"".join(pieces))
        (size,) = _LENGTH.unpack(self._responses.read(_LENGTH.size))
        return decode(response, version, self._responses.read(size), _RESPONSE_HEADER_BYTES)

    def create_topic(self, name: str) -> None:
        topic = create_topics.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        request = create_topics.CreateTopicsRequest(
            topics=[topic], timeout_ms=30_000, validate_only=False
        )
        self.call(ApiKey.CREATE_TOPICS, 7, request, create_topics.CreateTopicsResponse)

    def configure(self, resource: tuple[int, str], values: dict[str, str]) -> None:
        api = incremental_alter_configs
        changes = [
            api.AlterableConfig(name=key, config_operation=SET, value=value)
            for key, value in values.items()
        ]
        kind, name = resource
        altered = api.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
        request = api.IncrementalAlterConfigsRequest(resources=[altered], validate_only=False)
        response = self.call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, api.IncrementalAlterConfigsResponse
        )
        assert not response.responses[0].error_code, response

    def describe_once_applied(
        self, values: dict[str, str], resource: tuple[int, str]
    ) -> list[list[Any]]:
        """Describe a resource until the broker has applied the configs; return the rows."""
        while True:
            rows = self.describe(resource)
            first_synonyms = {row[5][0][0] for row in rows if row[5]}
            if first_synonyms >= set(values):
                return rows

    def describe(self, resource: tuple[int, str]) -> list[list[Any]]:
        api = describe_configs
        kind, name = resource
        described = api.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        request = api.DescribeConfigsRequest(resources=[described], include_synonyms=True)
        response = self.call(ApiKey.DESCRIBE_CONFIGS, 4, request, api.DescribeConfigsResponse)
        return sorted([_row(entry) for entry in response.results[0].configs])


def _row(entry: describe_configs.DescribeConfigsResourceResult) -> list[Any]:
    synonyms = [[it.name, it.value, it.source] for it in entry.synonyms]
    flags = [entry.read_only, entry.config_source, entry.is_sensitive]
    return [entry.name, entry.value, *flags, synonyms, entry.config_type]


def record(inputs: dict[str, dict[str, str]]) -> dict[str, list[list[Any]]]:
    """Start a broker with the static configs, set the dynamic ones, describe all resources."""
    client, quorum = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        # The ports and the directory in `described.json` stand for those of this machine.
        local = {"9092": str(client), "9093": str(quorum), "/data": f"{folder}/data"}
        path = f"{folder}/server.properties"
        with open(path, "w", encoding="utf-8") as file:
            lines = [f"{key}={value}\n" for key, value in inputs["file"].items()]
            file.write(_replace_all("".join(lines), local))
        assert kraftlog(["format", "-c", path]) == 0
        with start_kafka(path, folder):
            connection = Connection(client)
            connection.create_topic("t")
            for label, resource in RESOURCES.items():
                connection.configure(resource, inputs[label])
            responses = {
                label: connection.describe_once_applied(inputs[label], resource)
                for label, resource in RESOURCES.items()
            }
    text = _replace_all(json.dumps(responses), {value: key for key, value in local.items()})
    recorded: dict[str, list[list[Any]]] = json.loads(text)
    return recorded


def _replace_all(text: str, pairs: dict[str, str]) -> str:
    for old, new in pairs.items():
        text = text.replace(old, new)
    return text


def main() -> None:
    with open(PATH, encoding="utf-8") as file:
        inputs = json.load(file)["given"]
    responses = record(inputs)
    parts = [
        f'"{label}": [\n' + ",\n".join([json.dumps(row) for row in rows]) + "\n]"
        for label, rows in responses.items()
    ]
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(f'{{\n"given": {json.dumps(inputs, indent=1)},\n')
        file.write('"responses": {\n' + ",\n".join(parts) + "\n}\n}\n")


if __name__ == "__main__":
    main()
