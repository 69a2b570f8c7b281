"""Nodes with TLS, logins, ACLs and quotas: what each of them costs, and how exact a quota is."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from bench.beside.frame_client import LOOPBACK, create_topic
from bench.beside.machine import cpu_seconds
from bench.beside.peers import running
from bench.beside.programs import load, pace, program
from bench.beside.rounds import BATCHED, GREEDY, UNBATCHED, in_turns, warm
from bench.beside.rows import KRAFTLOG
from bench.beside.secured_nodes import (
    AUTHORIZER,
    SecuredNode,
    add_user,
    secured_nodes,
    write_certificates,
)
from bench.beside.throughput import Load, count_of, measure_rounds
from kraftlog import Client
from kraftlog.authorization.acls import Operation, PatternType, Permission, ResourceType
from kraftlog.client.quotas import alter_quotas
from kraftlog.wire.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.beside.figures import Result
    from bench.beside.peers import Peer
    from bench.beside.plan import Plan

#: Produced and consumed over TLS.
TLS_LOAD = Load("1KiB", 1024, 400_000)
#: Clients that log in at the same time, and the logins of each in a round.
LOGIN_CLIENTS, LOGINS = 2, 400
ACLS, ACLS_A_REQUEST, TOPICS_WITH_ACLS = 10_000, 1_000, 2_500
ACL_TOPIC = "acls"
SMALL_REQUESTS = 60_000
#: Unmeasured runs, for a JVM to compile its code.
WARM_UPS = 3
#: Five clients share a quota, by their client id; it is measured once its first seconds are over,
#: in which the quota allows what it has not used before.
LIMITED, LIMITED_CLIENTS, LIMIT_MB = "limited", 5, 10
QUOTA_AFTER_S, QUOTA_S = 20, 60
#: How long the other client is measured without them.
ALONE_S = 15
QUOTA_SIZE = 10 * 1024
#: What another client sends meanwhile, in records a second.
OTHER_RATE, OTHER_SIZE = 100, 100


def secured(plan: Plan, folder: str, result: Result) -> None:
    certificates = write_certificates(folder)
    nodes = secured_nodes(folder, certificates, "open")
    with running(*nodes):
        warm(nodes, plan)
        encrypted(nodes, plan, result)
        logins(nodes, certificates, plan, result)
        quota(nodes, plan, result)
    guarded = secured_nodes(folder, certificates, "guarded", AUTHORIZER)
    with running(*nodes, *guarded):
        acls(nodes, guarded, plan, result)


# TLS ---------------------------------------------------------------------------------------------


def encrypted(nodes: Sequence[SecuredNode], plan: Plan, result: Result) -> None:
    """Produce and consume over TLS."""

    def produce(peer: Peer, workload: Load, count: int) -> tuple[int, float]:
        node = secured_of(peer)
        sent = ("acks=1", *BATCHED, *node.librdkafka_tls)
        return load("produce", node.tls_address, "tls", count, workload.size, *sent)

    def consume(peer: Peer, _workload: Load, count: int) -> tuple[int, float]:
        node = secured_of(peer)
        return load("consume", node.tls_address, "tls", count, *GREEDY, *node.librdkafka_tls)

    for node in nodes:
        create_topic(node.port, "tls")
        produce(node, TLS_LOAD, count_of(TLS_LOAD, plan))  # for a JVM to compile its code
        consume(node, TLS_LOAD, count_of(TLS_LOAD, plan))
    measure_rounds("tls.produce", nodes, TLS_LOAD, plan, result, produce)
    measure_rounds("tls.consume", nodes, TLS_LOAD, plan, result, consume)


def secured_of(peer: Peer) -> SecuredNode:
    assert isinstance(peer, SecuredNode)
    return peer


# Logins ------------------------------------------------------------------------------------------


def logins(nodes: Sequence[SecuredNode], certificates: str, plan: Plan, result: Result) -> None:
    """Connections with TLS and SCRAM: how many a second, and the broker's CPU time for one."""
    count = plan.count(LOGINS)
    for node in nodes:
        add_user(node)
        log_in(node, certificates, count)
    kraftlog = next(node for node in nodes if node.name == KRAFTLOG)
    before = long_turns(kraftlog)
    for node in in_turns(nodes, plan.rounds):
        brokers = cpu_seconds(node.pid)
        seconds = log_in(node, certificates, count)
        all_logins = count * LOGIN_CLIENTS
        result.add("logins.rate", node.name, all_logins / seconds)
        cost_ms = (cpu_seconds(node.pid) - brokers) * 1000 / all_logins
        result.add("logins.cpu", node.name, cost_ms)
    number = long_turns(kraftlog) - before
    result.notes.append(f"Logins: {number:g} turns of kraftlog took 5 ms or longer.")


def log_in(node: SecuredNode, certificates: str, count: int) -> float:
    """Log in with all clients; return the seconds of the slowest."""
    command = [sys.executable, "-m", "bench.beside.logins", str(node.login_port), certificates]
    with ExitStack() as stack:
        clients = [
            stack.enter_context(
                subprocess.Popen([*command, str(count)], stdout=subprocess.PIPE, text=True)
            )
            for _ in range(LOGIN_CLIENTS)
        ]
        printed = [client.communicate()[0] for client in clients]
    return max(float(text) for text in printed)


def long_turns(node: SecuredNode) -> float:
    """How many turns of a kraftlog node have taken 5 ms or longer."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{node.http_port}/metrics") as page:
        lines = page.read().decode().splitlines()
    name = "kraftlog_loop_long_turns_total"
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


# Quotas ------------------------------------------------------------------------------------------


def quota(nodes: Sequence[SecuredNode], plan: Plan, result: Result) -> None:
    """Clients that would send more than their quota, and another one beside them."""

    def other(node: SecuredNode, seconds: float) -> list[float]:
        count = int(OTHER_RATE * seconds * plan.scale)
        return pace(node.address, "other", count, OTHER_SIZE, OTHER_RATE, "acks=1")[1]

    for node in nodes:
        for topic in (LIMITED, "other"):
            create_topic(node.port, topic)
        with Client(node.address) as client:
            bytes_a_second = float(LIMIT_MB * 1_000_000)
            alter_quotas(client, (("client-id", LIMITED),), {"producer_byte_rate": bytes_a_second})
        alone = other(node, ALONE_S)
        with limited_clients(node), Client(node.address) as client:
            time.sleep(QUOTA_AFTER_S * plan.scale)
            begin, sent = time.perf_counter(), end_offset(client)
            beside = other(node, QUOTA_S)
            sent, took = end_offset(client) - sent, time.perf_counter() - begin
        rate = sent * QUOTA_SIZE / 1e6 / took
        result.add("quota.rate", node.name, rate)
        result.add("quota.error", node.name, max(0.01, abs(rate / LIMIT_MB - 1) * 100))
        for name, latencies in (("alone", alone), ("beside", beside)):
            result.add(f"quota.{name}.p50", node.name, latencies[0])
            result.add(f"quota.{name}.p99", node.name, latencies[2])


@contextmanager
def limited_clients(node: SecuredNode) -> Iterator[None]:
    """Clients with the quota, which send without end."""
    settings = (f"client.id={LIMITED}", "acks=1", "queue.buffering.max.messages=2000")
    command = [program("load"), "produce", node.address, LIMITED, "100000000", str(QUOTA_SIZE)]
    with ExitStack() as stack:
        for _ in range(LIMITED_CLIENTS):
            client = stack.enter_context(subprocess.Popen([*command, *settings]))
            stack.callback(client.terminate)
        yield


def end_offset(client: Client) -> int:
    [offset] = client.offsets(LIMITED, "latest").values()
    return offset.offset


# ACLs --------------------------------------------------------------------------------------------


def acls(
    nodes: Sequence[SecuredNode], guarded: Sequence[SecuredNode], plan: Plan, result: Result
) -> None:
    """Small requests with 10,000 ACLs, beside a node of the same broker that has no authorizer."""
    count = plan.count(SMALL_REQUESTS)
    for node in (*nodes, *guarded):
        create_topic(node.port, ACL_TOPIC)
    for node in guarded:
        add_acls(node)
    for node in (*nodes, *guarded):
        for _ in range(WARM_UPS):
            send_small(node, count)
    pairs = dict(zip(nodes, guarded, strict=True))
    for node in in_turns(nodes, plan.rounds):
        rate, cost_us = send_small(node, count)
        guarded_rate, guarded_cost_us = send_small(pairs[node], count)
        for row, figure in (
            ("without.rate", rate),
            ("rate", guarded_rate),
            ("share", guarded_rate / rate),
            ("without.cpu", cost_us),
            ("cpu", guarded_cost_us),
            ("cost", guarded_cost_us / cost_us),
        ):
            result.add(f"acls.{row}", node.name, figure)


def send_small(node: Peer, count: int) -> tuple[float, float]:
    """Requests a second, and microseconds of the broker's CPU for one."""
    begin = cpu_seconds(node.pid)
    records, seconds = load("produce", node.address, ACL_TOPIC, count, 100, *UNBATCHED)
    return records / seconds, (cpu_seconds(node.pid) - begin) * 1e6 / count


def add_acls(node: SecuredNode) -> None:
    """The client's own ACLs first: with the next ones, what is not allowed is denied."""
    mine = [
        acl(ACL_TOPIC, "User:ANONYMOUS", each) for each in (Operation.WRITE, Operation.DESCRIBE)
    ]
    others = [
        acl(
            f"topic-{number % TOPICS_WITH_ACLS}",
            f"User:{number // TOPICS_WITH_ACLS}",
            Operation.READ,
        )
        for number in range(ACLS - len(mine))
    ]
    creations = [*mine, *others]
    with Client(node.address) as client:
        for first in range(0, len(creations), ACLS_A_REQUEST):
            request = CreateAclsRequest(creations=creations[first : first + ACLS_A_REQUEST])
            response = client.request("CreateAcls", None, request)
            assert isinstance(response, CreateAclsResponse)
            assert {each.error_code for each in response.results} == {0}


def acl(topic: str, principal: str, operation: int) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=topic,
        resource_pattern_type=PatternType.LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    )
