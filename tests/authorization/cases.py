"""ACLs and questions about them, of few names, so that they often match; a plain reference."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from kraftlog.authorization.acls import (
    EVERYONE,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from kraftlog.wire.messages.metadata_records import AccessControlEntryRecord

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence
    from typing import Any

PRINCIPALS = ("User:a", "User:b", "Group:a")
CLIENTS = ("10.0.0.1", "10.0.1.1", "0:0:0:0:0:0:0:1", "fd00:0:0:0:0:0:0:7")
HOSTS = (WILDCARD, "10.0.0.1", "10.0.0.0/24", "10.0.0.1/8", "fd00::/16", CLIENTS[2], "::1")
NAMES = ("a", "aa", "ab", "aab", "b", "a-b", "hardcode")
SUPER_USER = "User:super"
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}

KINDS = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = range(Operation.READ, Operation.TWO_PHASE_COMMIT + 1)
#: The values of the parts of an ACL, in the order of `acl_key`.
PARTS: tuple[Sequence[Any], ...] = (
    KINDS,
    (*NAMES, WILDCARD),
    (PatternType.LITERAL, PatternType.PREFIXED),
    (*PRINCIPALS, EVERYONE),
    HOSTS,
    (Operation.ALL, *OPERATIONS),
    (Permission.DENY, Permission.ALLOW, Permission.ALLOW),
)
#: Those of a question: principal, host, operation, type and name of a resource.
ASKED: tuple[Sequence[Any], ...] = (
    (*PRINCIPALS, SUPER_USER),
    CLIENTS,
    OPERATIONS,
    KINDS,
    (*NAMES, WILDCARD),
)
Question = tuple[str, str, int, int, str]


def acl_of(parts: Sequence[Any]) -> AccessControlEntryRecord:
    """An ACL of the parts of its key."""
    kind, name, pattern, principal, host, operation, permission = parts
    return AccessControlEntryRecord(
        id=bytes(16),
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


acls = st.tuples(*map(st.sampled_from, PARTS)).map(acl_of)
questions = st.tuples(*map(st.sampled_from, ASKED))


def random_acls(rng: random.Random) -> list[AccessControlEntryRecord]:
    return [acl_of([rng.choice(part) for part in PARTS]) for _ in range(rng.randrange(16))]


def random_question(rng: random.Random) -> Question:
    principal, host, operation, kind, name = (rng.choice(part) for part in ASKED)
    return principal, host, operation, kind, name


def allows(
    acls: Iterable[AccessControlEntryRecord],
    question: Question,
    *,
    allow_everyone_without_acl: bool,
) -> bool:
    """The rules of StandardAuthorizer, one ACL after the other."""
    principal, host, operation, resource, name = question
    about = [
        acl
        for acl in acls
        if acl.resource_type == resource
        and (
            name.startswith(acl.resource_name)
            if acl.pattern_type == PatternType.PREFIXED
            else acl.resource_name in {name, WILDCARD}
        )
    ]
    matching = [
        acl for acl in about if acl.principal in {principal, EVERYONE} and _is_at(host, acl.host)
    ]
    asked = {operation, Operation.ALL}
    if any(a.permission_type == Permission.DENY and a.operation in asked for a in matching):
        return False
    asked |= IMPLIED.get(operation, set())
    if any(a.permission_type == Permission.ALLOW and a.operation in asked for a in matching):
        return True
    return principal == SUPER_USER or (allow_everyone_without_acl and not about)


def allows_any(acls: Sequence[AccessControlEntryRecord], question: Question) -> bool:
    """Whether a permission is left that no denial of its name or a shorter one cancels."""
    principal, host, operation, resource, _ = question
    matching = [
        acl
        for acl in acls
        if acl.resource_type == resource
        and acl.operation in {operation, Operation.ALL}
        and acl.principal in {principal, EVERYONE}
        and _is_at(host, acl.host)
    ]
    denied = [
        (a.pattern_type, a.resource_name) for a in matching if a.permission_type == Permission.DENY
    ]
    if (PatternType.LITERAL, WILDCARD) in denied:
        return False
    return any(
        (a.pattern_type, a.resource_name) == (PatternType.LITERAL, WILDCARD)
        or not any(
            a.resource_name.startswith(name)
            if pattern == PatternType.PREFIXED
            else (pattern, name) == (a.pattern_type, a.resource_name)
            for pattern, name in denied
        )
        for a in matching
        if a.permission_type == Permission.ALLOW
    )


def _is_at(client: str, host: str) -> bool:
    if "/" in host:
        network = ip_network(host, strict=False)
        return ip_address(client) in network
    return host in {WILDCARD, client}
