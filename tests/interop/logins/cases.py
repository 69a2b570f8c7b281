"""How a client tries to get in, and what comes of it.

A client is a program that gets the path of a file with the cases and a time limit in seconds. It
tries each case: it writes a record to the topic and reads the topic's first one. It prints a line
of JSON for each: the name of the case, and "in" or the error that the client reports.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from tests.interop.everyday.work import run_program
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.interop.logins.brokers import Listeners

TOPIC = "logins"
USER, PASSWORD = "alice", "alice-secret"
IN = "in"
PORTS = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=127\.0\.0\.1', )\d+")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


#: The time limit of a client for all cases.
ALL_CASES_S = 4 * LIMIT_S


@dataclass(frozen=True)
class Case:
    """`password` is the token of OAUTHBEARER; the last three are files of PEM, or empty."""

    name: str
    address: str
    protocol: str
    ca: str = ""
    certificate: str = ""
    key: str = ""
    mechanism: str = ""
    user: str = ""
    password: str = ""
    #: The password in a file, as Kafka's own clients read tokens.
    token_url: str = ""
    #: Whether the client gets in.
    gets_in: bool = True


def cases(listeners: Listeners) -> Iterator[Case]:
    """Each mechanism on both listeners with SASL, right and wrong, and TLS with certificates."""
    for protocol, address in (
        ("SASL_SSL", listeners.login),
        ("SASL_PLAINTEXT", listeners.open),
    ):
        ca = listeners.ca if protocol == "SASL_SSL" else ""
        for mechanism in MECHANISMS:
            tokens = listeners.tokens if mechanism == "OAUTHBEARER" else {}
            for word, password in ("right", PASSWORD), ("wrong", "wrong"):
                yield Case(
                    f"{protocol} {mechanism} {word}",
                    address,
                    protocol,
                    ca=ca,
                    mechanism=mechanism,
                    user=USER,
                    password=tokens.get(word, password),
                    token_url=listeners.token_url(word),
                    gets_in=word == "right",
                )
    known = Case(
        "SSL with a certificate",
        listeners.tls,
        "SSL",
        ca=listeners.ca,
        certificate=listeners.certificate,
        key=listeners.key,
    )
    yield known
    yield replace(known, name="SSL without", certificate="", key="", gets_in=False)
    yield replace(known, name="SSL, another authority", ca=listeners.other_ca, gets_in=False)


def write_cases(path: str, listeners: Listeners) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump([asdict(case) for case in cases(listeners)], file)


def tried(command: Sequence[str], path: str, listeners: Listeners) -> dict[str, str]:
    """Run a client's program; return the outcome of each case, without ports."""
    write_cases(path, listeners)
    return without_ports(run_program(command, path, ALL_CASES_S))


def without_ports(outcomes: dict[str, str]) -> dict[str, str]:
    return {name: PORTS.sub("PORT", outcome) for name, outcome in outcomes.items()}


def main(attempt: Callable[[Case], None]) -> None:
    """The main program of a Python client: `attempt` raises what the client reports."""
    with open(sys.argv[1], encoding="utf-8") as file:
        each = [Case(**fields) for fields in json.load(file)]
    for case in each:
        try:
            attempt(case)
            outcome = IN
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        print(json.dumps([case.name, outcome]), flush=True)
