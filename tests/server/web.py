"""HTTP requests to a node, with Python's client."""

from __future__ import annotations

import re
from http.client import HTTPConnection
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from prometheus_client import Metric

    from tests.server.node_process import NodeProcess


def web_port(node: NodeProcess) -> int:
    """The port of a node's HTTP address, from the line that it logs before it is ready."""
    match = re.search(r"^kraftlog: http on \S+:(\d+)$", node.output(), re.MULTILINE)
    assert match, node.output()
    return int(match[1])


def ask(port: int, path: str, method: str = "GET") -> tuple[HTTPResponse, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response, response.read().decode()
    finally:
        connection.close()


class Metrics:
    """A page of metrics, parsed by Prometheus' Python library."""

    def __init__(self, port: int) -> None:
        response, self.text = ask(port, "/metrics")
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        self.families: dict[str, Metric] = {}
        for family in text_string_to_metric_families(self.text):
            assert family.name not in self.families, f"{family.name} is duplicated"
            self.families[family.name] = family

    def value(self, name: str, **labels: str) -> float:
        """The value of the only sample with this name and these labels."""
        values = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        assert len(values) == 1, (name, labels, values)
        return values[0]
