"""The clients that do the everyday work, where each is pinned, and what one lacks."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from tests.interop.everyday.work import EXPECTED, run_program
from tests.interop.programs import go_program, js_program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.interop.everyday.work import Facts

PYTHON = ("requirements/dev.txt", r"^{}==(\S+)")
NPM = ("tests/interop/js/package.json", r'"{}": "(.+?)"')
GO = ("tests/interop/go/go.mod", r"\b{} v(\S+)")
MAVEN = ("tests/interop/jvm/pom.xml", r"<{}>(.+?)<")


class Client(NamedTuple):
    """`lacks` says which facts a client can't have, as it has no such call."""

    language: str
    name: str
    pinned: tuple[str, str]
    found_as: str
    does: str  # a module beside this one, a program in ../js, or nothing
    lacks: Mapping[str, tuple[str, ...]] = {}

    def version(self, files: Mapping[str, str]) -> str:
        path, pattern = self.pinned
        found = re.search(pattern.format(re.escape(self.found_as)), files[path], re.MULTILINE)
        assert found, f"{path} has no {self.found_as}"
        return found[1]

    def expected(self) -> dict[str, Facts]:
        return {
            piece: {k: v for k, v in facts.items() if k not in self.lacks.get(piece, ())}
            for piece, facts in EXPECTED.items()
        }

    def work(self, address: str) -> dict[str, Facts]:
        """All pieces of work, and the facts of each."""
        if self.language == "Python":
            module = f"tests.interop.everyday.{self.does}"
            return run_program([sys.executable, "-m", module], address)
        return run_program(js_program(self.does) if self.does else go_program(), address)


CLIENTS = (
    Client("Python", "confluent-kafka (librdkafka)", PYTHON, "confluent-kafka", "librdkafka"),
    Client("Python", "kafka-python", PYTHON, "kafka-python", "kafka_python"),
    Client("Python", "aiokafka", PYTHON, "aiokafka", "aio", {"groups": ("removed",)}),
    Client("JavaScript", "KafkaJS", NPM, "kafkajs", "kafkajs"),
    Client("JavaScript", "@platformatic/kafka", NPM, "@platformatic/kafka", "platformatic"),
    Client("Go", "franz-go", GO, "github.com/twmb/franz-go", ""),
)
JAVA = Client("Java", "Kafka's own", MAVEN, "kafka.version", "")


def clients_table(files: dict[str, str]) -> str:
    """Every client, its version, and which pieces of the everyday work it has done."""
    pieces = list(EXPECTED)
    lines = [f"| client | language | version | {' | '.join(pieces)} |"]
    lines += ["|" + "---|" * (len(pieces) + 3)]
    for client in (*CLIENTS, JAVA):
        done = ["yes" if p not in client.lacks else "in part" for p in pieces]
        cells = [client.name, client.language, client.version(files), *done]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
