"""`Authorizer`: whether a client may do something, by the rules of Kafka's StandardAuthorizer.

A super user may do everything. Otherwise a denial that matches decides, then a permission that
matches; without either the answer is no, unless no ACL at all is about the resource and
`allow.everyone.if.no.acl.found` is set.

The ACLs are indexed by type of resource, principal and host, so that a decision costs a few
look-ups, however many there are.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

from kraftlog.authorization.acls import (
    EVERYONE,
    OPERATIONS,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
)
from kraftlog.authorization.hosts import address_number, network_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from kraftlog.authorization.acls import Acl
    from kraftlog.authorization.hosts import Network

#: Decisions that are remembered, and the longest names in them.
MAX_DECISIONS, MAX_NAME = 10_000, 256
#: A name that no ACL is expected to have, by which Kafka finds out who may use every resource.
_ANY_NAME = "hardcode"
#: In the code of an ACL: it denies.
_DENIES = 0x80
_IMPLIED_BY = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


class Authorizer:
    """Decides from the ACLs that `add` and `remove` have left.

    Until `has_loaded`, the ACLs are not complete, and only super users may do anything.
    """

    def __init__(
        self,
        super_users: Collection[str] = (),
        *,
        allow_everyone_without_acl: bool = False,
        has_loaded: Callable[[], bool] = lambda: True,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone_without_acl
        self._has_loaded = has_loaded
        self._is_loaded = False
        #: Changes with every ACL: decisions made before it changed may be wrong.
        self.generation = 0
        self._decisions: dict[tuple[object, ...], bool] = {}
        self.replace(())

    @property
    def is_loaded(self) -> bool:
        """Whether all ACLs that were committed when this node started are known."""
        self._is_loaded = self._is_loaded or self._has_loaded()
        return self._is_loaded

    def can_decide(self, principal: str) -> bool:
        """Whether a decision about this principal would be final: before, only denials are made."""
        return self.is_loaded or principal in self._super_users

    # Changes -------------------------------------------------------------------------------------

    def add(self, acl: Acl) -> None:
        self._forget_decisions()
        host = _host_key(acl.host)
        if isinstance(host, tuple):
            self._networks[host[:2]] += 1
        grants = (acl.resource_type, acl.principal, host)
        self._grants.setdefault(grants, _Patterns()).add(acl, _code(acl))
        self._subjects.setdefault(acl.resource_type, _Patterns()).add(acl, 0)

    def remove(self, acl: Acl) -> None:
        self._forget_decisions()
        host = _host_key(acl.host)
        if isinstance(host, tuple):
            self._networks[host[:2]] -= 1
            self._networks += Counter()  # drops what is 0
        grants = (acl.resource_type, acl.principal, host)
        self._grants[grants].remove(acl, _code(acl))
        if self._grants[grants].is_empty:
            del self._grants[grants]
        self._subjects[acl.resource_type].remove(acl, 0)

    def replace(self, acls: Iterable[Acl]) -> None:
        """Replace all ACLs."""
        self._forget_decisions()
        #: What ACLs allow and deny, by type of resource, principal and host.
        self._grants: dict[tuple[int, str, str | Network], _Patterns] = {}
        #: What ACLs are about, by type of resource.
        self._subjects: dict[int, _Patterns] = {}
        #: Sizes of addresses and prefixes of the networks that ACLs name.
        self._networks: Counter[tuple[int, int]] = Counter()
        for acl in acls:
            self.add(acl)

    def _forget_decisions(self) -> None:
        self.generation += 1
        self._decisions.clear()

    # Decisions -----------------------------------------------------------------------------------

    def allows(self, principal: str, host: str, operation: int, resource: int, name: str) -> bool:
        """Whether a principal may do this to the resource, from a host as Java prints it."""
        if principal in self._super_users:
            return True
        question = (principal, host, operation, resource, name)
        decision = self._decisions.get(question)
        if decision is None:
            if not self.is_loaded:
                return False
            decision = self._decide(*question)
            if len(name) <= MAX_NAME:
                self._remember(question, decision)
        return decision

    def allows_any(self, principal: str, host: str, operation: int, resource: int) -> bool:
        """Whether a principal may do this to some resource of a type, existing or not.

        Operations that others imply, such as DESCRIBE, count only if ACLs name them.
        """
        question = (principal, host, operation, resource)
        if self.allows(principal, host, operation, resource, _ANY_NAME):
            return True
        decision = self._decisions.get(question)
        if decision is None:
            if not self.is_loaded:
                return False
            decision = self._decide_any(*question)
            self._remember(question, decision)
        return decision

    def _remember(self, question: tuple[object, ...], decision: bool) -> None:
        if len(self._decisions) >= MAX_DECISIONS:
            self._decisions.clear()
        self._decisions[question] = decision

    def _decide(self, principal: str, host: str, operation: int, resource: int, name: str) -> bool:
        asked = (Operation.ALL, operation)
        allowing = frozenset((*asked, *_IMPLIED_BY.get(operation, ())))
        denying = frozenset([_DENIES | each for each in asked])
        is_allowed = False
        for patterns in self._grants_of(principal, host, resource):
            for codes in patterns.matching(name):
                if not denying.isdisjoint(codes):
                    return False
                is_allowed = is_allowed or not allowing.isdisjoint(codes)
        return is_allowed or (self._allow_everyone and not self._is_subject(resource, name))

    def _is_subject(self, resource: int, name: str) -> bool:
        """Whether an ACL is about the resource, whomever it names."""
        subjects = self._subjects.get(resource)
        return subjects is not None and any(subjects.matching(name))

    def _grants_of(self, principal: str, host: str, resource: int) -> Iterator[_Patterns]:
        """What ACLs allow and deny to a principal on a host."""
        hosts: list[str | Network] = [WILDCARD, host]
        number = address_number(host) if self._networks else None
        if number is not None:
            bits, address = number
            hosts += [
                (bits, size, address >> (bits - size))
                for of_bits, size in self._networks
                if of_bits == bits
            ]
        for each, at in product((principal, EVERYONE), hosts):
            patterns = self._grants.get((resource, each, at))
            if patterns is not None:
                yield patterns

    def _decide_any(self, principal: str, host: str, operation: int, resource: int) -> bool:
        """Whether some permission is left that no denial of the same or a shorter name cancels."""
        asked = frozenset((Operation.ALL, operation))
        refused = frozenset([_DENIES | each for each in asked])
        grants = list(self._grants_of(principal, host, resource))
        denied = {name for each in grants for name in each.names(PatternType.LITERAL, refused)}
        if WILDCARD in denied:
            return False
        prefixes = {name for each in grants for name in each.names(PatternType.PREFIXED, refused)}
        sizes = {len(prefix) for prefix in prefixes}

        def is_left(name: str) -> bool:
            return not any(name[:size] in prefixes for size in sizes if size <= len(name))

        return any(
            name == WILDCARD or (name not in denied and is_left(name))
            for each in grants
            for name in each.names(PatternType.LITERAL, asked)
        ) or any(
            is_left(name) for each in grants for name in each.names(PatternType.PREFIXED, asked)
        )


class _Patterns:
    """Codes of ACLs, one byte each, by the patterns that name their resources."""

    __slots__ = ("_literal", "_prefixed", "_sizes")

    def __init__(self) -> None:
        self._literal: dict[str, bytes] = {}
        self._prefixed: dict[str, bytes] = {}
        #: How many prefixes have a length.
        self._sizes: dict[int, int] = {}

    @property
    def is_empty(self) -> bool:
        return not self._literal and not self._prefixed

    def add(self, acl: Acl, code: int) -> None:
        name = acl.resource_name
        if acl.pattern_type == PatternType.LITERAL:
            self._literal[name] = self._literal.get(name, b"") + bytes((code,))
        elif acl.pattern_type == PatternType.PREFIXED:
            if name not in self._prefixed:
                self._sizes[len(name)] = self._sizes.get(len(name), 0) + 1
            self._prefixed[name] = self._prefixed.get(name, b"") + bytes((code,))

    def remove(self, acl: Acl, code: int) -> None:
        name = acl.resource_name
        if acl.pattern_type == PatternType.LITERAL:
            _remove(self._literal, name, code)
        elif acl.pattern_type == PatternType.PREFIXED and _remove(self._prefixed, name, code):
            self._sizes[len(name)] -= 1
            if not self._sizes[len(name)]:
                del self._sizes[len(name)]

    def matching(self, name: str) -> Iterator[bytes]:
        """The codes under every pattern that matches a name."""
        for pattern in (name, WILDCARD):
            if pattern in self._literal:
                yield self._literal[pattern]
        for size in self._sizes:
            codes = self._prefixed.get(name[:size]) if size <= len(name) else None
            if codes is not None:
                yield codes

    def names(self, pattern_type: int, wanted: frozenset[int]) -> Iterator[str]:
        """The patterns of a type with one of these codes."""
        patterns = self._literal if pattern_type == PatternType.LITERAL else self._prefixed
        for name, codes in patterns.items():
            if not wanted.isdisjoint(codes):
                yield name


def _code(acl: Acl) -> int:
    """The operation of an ACL, marked if it is denied; 0 for what never matches."""
    if acl.operation not in OPERATIONS:
        return 0
    if acl.permission_type == Permission.DENY:
        return _DENIES | acl.operation
    return acl.operation if acl.permission_type == Permission.ALLOW else 0


def _host_key(host: str) -> str | Network:
    return network_of(host) or host


def _remove(patterns: dict[str, bytes], name: str, code: int) -> bool:
    """Remove one code of a name; returns whether it was the last one."""
    left = patterns[name].replace(bytes((code,)), b"", 1)
    if left:
        patterns[name] = left
        return False
    del patterns[name]
    return True
