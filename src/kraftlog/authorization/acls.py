"""What ACLs consist of, by Kafka's numbers, and filters of ACLs."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Protocol

    class Acl(Protocol):
        """An ACL as the metadata log has it: an AccessControlEntryRecord."""

        resource_type: int
        resource_name: str
        pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int

    class AclRequest(Protocol):
        """What a request asks for: a DescribeAclsRequest, or a filter of DeleteAcls."""

        resource_type_filter: int
        resource_name_filter: str | None
        pattern_type_filter: int
        principal_filter: str | None
        host_filter: str | None
        operation: int
        permission_type: int


class ResourceType:
    """Plain integers, as in all these classes, because an enum costs start-up time."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType:
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation:
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission:
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


#: The name of the only resource of type CLUSTER.
CLUSTER_NAME = "kafka-cluster"
#: A literal pattern, or a host, that matches all.
WILDCARD = "*"
#: The principal of ACLs for everyone.
EVERYONE = "User:*"


def names_of(numbers: type) -> dict[int, str]:
    """Kafka's names, by number, without the number for what is not known."""
    names = {each: name for name, each in vars(numbers).items() if name.isupper()}
    del names[0]
    return names


RESOURCE_TYPES = names_of(ResourceType)
PATTERN_TYPES = names_of(PatternType)
OPERATIONS = names_of(Operation)
PERMISSIONS = names_of(Permission)


def acl_key(acl: Acl) -> tuple[object, ...]:
    """All that an ACL says: a second one with the same key would change nothing."""
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


class AclFilter(Value):
    """Matches ACLs; None and ANY match all."""

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    @property
    def unknown(self) -> str:
        """Which part of the filter has a number without a meaning, in Kafka's words."""
        if not (self.resource_type in RESOURCE_TYPES and self.pattern_type in PATTERN_TYPES):
            return "Unknown patternFilter."
        if not (self.operation in OPERATIONS and self.permission in PERMISSIONS):
            return "Unknown entryFilter."
        return ""

    @property
    def key(self) -> tuple[object, ...] | None:
        """The key of the only ACL that can match; None if several can."""
        is_exact = (
            self.resource_type != ResourceType.ANY
            and self.pattern_type in {PatternType.LITERAL, PatternType.PREFIXED}
            and None not in {self.name, self.principal, self.host}
            and self.operation != Operation.ANY
            and self.permission != Permission.ANY
        )
        if not is_exact:
            return None
        return (
            self.resource_type,
            self.name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission,
        )

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in {ResourceType.ANY, acl.resource_type}
            and self._matches_pattern(acl)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in {Operation.ANY, acl.operation}
            and self.permission in {Permission.ANY, acl.permission_type}
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        """Whether the pattern is that of the filter; with MATCH, whether it affects the name."""
        if self.pattern_type not in {PatternType.ANY, PatternType.MATCH, acl.pattern_type}:
            return False
        if self.name is None or self.name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD


def filter_of(request: AclRequest) -> AclFilter:
    return AclFilter(
        resource_type=request.resource_type_filter,
        name=request.resource_name_filter,
        pattern_type=request.pattern_type_filter,
        principal=request.principal_filter,
        host=request.host_filter,
        operation=request.operation,
        permission=request.permission_type,
    )
