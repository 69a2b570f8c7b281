"""Who may do what: decisions, compared with a plain reference."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.authorization import authorizer as authorizer_module
from kraftlog.authorization.acls import (
    Operation,
    PatternType,
    Permission,
    ResourceType,
    acl_key,
)
from kraftlog.authorization.authorizer import Authorizer
from kraftlog.authorization.hosts import java_address, network_of
from tests.authorization import cases

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.wire.messages.metadata_records import AccessControlEntryRecord
    from tests.authorization.cases import Question
    from tests.interop.driver import Driver

ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
HOST = "10.0.0.1"


def acl(
    name: str = "orders",
    operation: int = READ,
    permission: int = ALLOW,
    *,
    pattern: int = LITERAL,
    principal: str = "User:a",
    host: str = "*",
    resource: int = ResourceType.TOPIC,
) -> AccessControlEntryRecord:
    return cases.acl_of((resource, name, pattern, principal, host, operation, permission))


def authorizer(*acls: AccessControlEntryRecord, everyone: bool = False) -> Authorizer:
    made = Authorizer([cases.SUPER_USER], allow_everyone_without_acl=everyone)
    made.replace(acls)
    return made


@pytest.mark.parametrize(
    ("acls", "operation", "allowed"),
    [
        ([], READ, False),
        ([acl()], READ, True),
        ([acl()], WRITE, False),
        ([acl()], DESCRIBE, True),
        ([acl(operation=WRITE)], DESCRIBE, True),
        ([acl(operation=Operation.CREATE)], DESCRIBE, False),
        ([acl(operation=Operation.ALL)], WRITE, True),
        ([acl(operation=Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS, True),
        ([acl(operation=Operation.ALTER)], Operation.DESCRIBE_CONFIGS, False),
        ([acl(operation=Operation.ANY)], READ, False),
        ([acl(operation=-100)], READ, False),
        ([acl(), acl(permission=DENY)], READ, False),
        ([acl("*"), acl("ord", permission=DENY, pattern=PREFIXED)], READ, False),
        ([acl(), acl(operation=READ, permission=DENY)], DESCRIBE, True),
        ([acl(), acl(permission=DENY, host="10.0.0.2")], READ, True),
        ([acl(host=HOST)], READ, True),
        ([acl(host="10.0.0.2")], READ, False),
        ([acl(host="10.0.0.0/31")], READ, True),
        ([acl(host="10.0.0.2/31")], READ, False),
        ([acl(host="0.0.0.0/0")], READ, True),
        ([acl(host="::/0")], READ, False),
        ([acl(host="10.0.0.0/33")], READ, False),
        ([acl(principal="User:*")], READ, True),
        ([acl(principal="User:b")], READ, False),
        ([acl(principal="Group:a")], READ, False),
        ([acl("ord", pattern=PREFIXED)], READ, True),
        ([acl("orders", pattern=PREFIXED)], READ, True),
        ([acl("orders2", pattern=PREFIXED)], READ, False),
        ([acl("ord")], READ, False),
        ([acl("*")], READ, True),
        ([acl("*", pattern=PREFIXED)], READ, False),
        ([acl(resource=ResourceType.GROUP)], READ, False),
    ],
)
def test_acls_decide(
    acls: list[AccessControlEntryRecord], operation: int, *, allowed: bool
) -> None:
    made = authorizer(*acls)
    assert made.allows("User:a", HOST, operation, ResourceType.TOPIC, "orders") is allowed


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], True),
        ([acl(principal="User:b")], False),
        ([acl("other")], True),
        ([acl("o", permission=DENY, principal="User:b", pattern=PREFIXED)], False),
        ([acl("*", operation=WRITE)], False),
        ([acl(resource=ResourceType.GROUP)], True),
    ],
)
def test_everyone_is_allowed_what_no_acl_is_about(
    acls: list[AccessControlEntryRecord], *, allowed: bool
) -> None:
    made = authorizer(*acls, everyone=True)
    assert made.allows("User:a", HOST, READ, ResourceType.TOPIC, "orders") is allowed


def test_a_super_user_may_do_everything() -> None:
    made = authorizer(acl("*", Operation.ALL, DENY, principal="User:*"))
    assert made.allows(cases.SUPER_USER, HOST, WRITE, ResourceType.TOPIC, "orders")
    assert made.allows_any(cases.SUPER_USER, HOST, WRITE, ResourceType.TOPIC)


def test_only_super_users_are_let_in_before_the_acls_are_loaded() -> None:
    loaded: list[bool] = []
    made = Authorizer(
        [cases.SUPER_USER], allow_everyone_without_acl=True, has_loaded=lambda: bool(loaded)
    )
    made.add(acl())
    question = (HOST, READ, ResourceType.TOPIC, "orders")
    assert not made.allows("User:a", *question)
    assert not made.allows_any("User:a", *question[:3])
    assert made.allows(cases.SUPER_USER, *question)
    assert made.allows_any(cases.SUPER_USER, *question[:3])
    loaded.append(True)
    assert made.allows("User:a", *question)
    assert made.allows_any("User:a", *question[:3])
    loaded.clear()
    assert made.is_loaded, "loading ends once"


def decisions(made: Authorizer, question: Question) -> tuple[bool, bool]:
    return made.allows(*question), made.allows_any(*question[:4])


def expected(
    acls: list[AccessControlEntryRecord], question: Question, *, everyone: bool
) -> tuple[bool, bool]:
    if question[0] == cases.SUPER_USER:
        return True, True
    asked_of_all = (*question[:4], "hardcode")
    return (
        cases.allows(acls, question, allow_everyone_without_acl=everyone),
        cases.allows(acls, asked_of_all, allow_everyone_without_acl=everyone)
        or cases.allows_any(acls, question),
    )


@given(st.lists(cases.acls, max_size=12), st.lists(cases.questions, max_size=8), st.booleans())
def test_decisions_are_those_of_the_reference(
    acls: list[AccessControlEntryRecord],
    questions: list[Question],
    everyone: bool,
) -> None:
    made = authorizer(*acls, everyone=everyone)
    for question in questions:
        assert decisions(made, question) == expected(acls, question, everyone=everyone)


@given(st.lists(st.tuples(st.booleans(), cases.acls), max_size=12), cases.questions, st.booleans())
def test_a_change_of_an_acl_counts_at_once(
    changes: list[tuple[bool, AccessControlEntryRecord]],
    question: Question,
    everyone: bool,
) -> None:
    made = authorizer(everyone=everyone)
    acls: list[AccessControlEntryRecord] = []
    for adds, changed in changes:
        before = made.generation
        if adds or not acls:
            made.add(changed)
            acls.append(changed)
        else:
            made.remove(acls.pop(0))
        assert made.generation != before
        assert decisions(made, question) == expected(acls, question, everyone=everyone)
    for left in acls:
        made.remove(left)
    assert vars(made)["_grants"] == {}, "what is removed leaves nothing behind"


def test_remembered_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer_module, "MAX_DECISIONS", 3)
    made = authorizer(acl("t", pattern=PREFIXED))
    for number in range(10):
        assert made.allows("User:a", HOST, READ, ResourceType.TOPIC, f"t{number}")
    assert made.allows("User:a", HOST, READ, ResourceType.TOPIC, "t" * 1000)
    assert len(vars(made)["_decisions"]) <= 3


def test_thousands_of_acls_take_little_memory_and_few_steps() -> None:
    acls = [
        acl(
            f"topic-{number}",
            pattern=LITERAL if number % 2 else PREFIXED,
            principal=f"User:{number % 100}",
        )
        for number in range(10_000)
    ]
    made = Authorizer()
    tracemalloc.start()
    made.replace(acls)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size < 500 * len(acls)
    assert made.allows("User:42", HOST, READ, ResourceType.TOPIC, "topic-42-retries")
    assert not made.allows("User:42", HOST, READ, ResourceType.TOPIC, "topic-43")


@pytest.mark.parametrize(
    ("address", "java"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("[::1]", "0:0:0:0:0:0:0:1"),
        ("2001:DB8::0a", "2001:db8:0:0:0:0:0:a"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("somewhere:else", "somewhere:else"),
    ],
)
def test_a_client_has_the_address_that_java_prints(address: str, java: str) -> None:
    assert java_address(address) == java


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.1.2.3/8", (32, 8, 10)),
        ("10.1.2.3/32", (32, 32, 0x0A010203)),
        ("0.0.0.0/0", (32, 0, 0)),
        ("fd00::1/16", (128, 16, 0xFD00)),
        ("*", None),
        ("10.1.2.3", None),
        ("10.1.2.3/", None),
        ("10.1.2.3/33", None),
        ("10.1.2.3/-1", None),
        ("10.1.2/8", None),
        ("10.1.2.256/8", None),
        ("fd00::/129", None),
        ("fd00::g/16", None),
    ],
)
def test_a_host_may_be_a_network(host: str, network: tuple[int, int, int] | None) -> None:
    assert network_of(host) == network


def test_decisions_are_those_of_kafkas_own_authorizer(jvm: Driver) -> None:
    """Thousands of random cases, in which each rule decides often enough to notice it missing."""
    rng = random.Random(7)
    items: list[dict[str, Any]] = [
        {
            "super_users": cases.SUPER_USER,
            "everyone": bool(rng.getrandbits(1)),
            "acls": list({acl_key(each): None for each in cases.random_acls(rng)}),
            "questions": [cases.random_question(rng) for _ in range(10)],
        }
        for _ in range(300)
    ]
    for item, answers in zip(items, jvm.call("authorize", items=items), strict=True):
        made = authorizer(*map(cases.acl_of, item["acls"]), everyone=item["everyone"])
        for question, answer in zip(item["questions"], answers, strict=True):
            assert list(decisions(made, question)) == answer, (item["acls"], question)
