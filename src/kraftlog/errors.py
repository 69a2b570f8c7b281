"""Kafka's error codes, and kraftlog's exceptions.

Handlers return error codes as values. Exceptions are for protocol violations, invalid settings,
corrupt batches, failed disks, broken invariants, and for everything that fails in a client.
"""

from __future__ import annotations


class ErrorCode:
    """Kafka's error codes as plain integers, because an enum costs start-up time."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
    CONTROLLER_ID_NOT_REGISTERED = 136


#: The errors that are retriable in Kafka.
RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


#: What to do while kraft.version is 0: directory ids are not recorded, and voters can't be changed.
RAISE_KRAFT_VERSION = (
    "once every voter runs, raise it with kraftlog features upgrade --feature kraft.version=1 "
    "(it can't be lowered again)"
)


class KraftlogError(Exception):
    """Base class of all kraftlog exceptions."""


class ProtocolError(KraftlogError):
    """A peer sent an invalid message; its connection is closed.

    `field` is the place in the message (`topics[3].name`), `position` the byte.
    """

    def __init__(self, what: str, *, field: str = "", position: int = -1) -> None:
        where = f" in {field}" if field else ""
        at = f" at byte {position}" if position >= 0 else ""
        super().__init__(f"{what}{where}{at}")
        self.what = what
        self.field = field
        self.position = position


class UnexpectedTlsError(ProtocolError):
    """A client began a TLS handshake on a listener without TLS."""


class InternalError(KraftlogError):
    """An unexpected exception that left no state half changed; it costs a client its connection.

    The message has the traceback. If state may be half changed, the node stops instead.
    """

    def __init__(self, what: str, error: BaseException) -> None:
        from traceback import format_exception

        trace = "".join(format_exception(error))
        super().__init__(f"internal error, {what}:\n{trace}".rstrip())


class UnansweredError(KraftlogError):
    """A request without a response (acks=0) was refused; closing the connection is the signal."""


class UnsupportedVersionError(KraftlogError):
    """A message cannot be encoded in a version, because a field does not exist there."""


class UnwritableError(KraftlogError):
    """A record cannot be encoded, or would be decoded to other values."""


class CorruptBatchError(KraftlogError):
    """Bytes are not a valid record batch; `code` is the error code for the client."""

    def __init__(self, what: str, *, code: int = ErrorCode.CORRUPT_MESSAGE, position: int = -1):
        at = f" at byte {position}" if position >= 0 else ""
        super().__init__(f"{what}{at}")
        self.what = what
        self.code = code
        self.position = position


class RejectedRecordsError(CorruptBatchError):
    """Some records of a batch are invalid; `rejected` lists their indexes with reasons."""

    def __init__(self, what: str, *, code: int, rejected: list[tuple[int, str]]):
        super().__init__(what, code=code)
        self.rejected = rejected


class ConfigError(KraftlogError):
    """An invalid setting; the message has the key, the value and what is accepted."""


class StorageError(KraftlogError):
    """A log cannot be read or written; the message has the file and, if known, the position."""


class CorruptLogError(StorageError):
    """Flushed data is corrupt or lost; nothing is overwritten."""


class UnreplayableError(StorageError):
    """A committed record cannot be replayed; continuing would leave the state wrong."""


class DiskFullError(StorageError):
    """The disk is full; a partial write was truncated, so the write can be retried."""


class ClientError(KraftlogError):
    """Base class of the client's exceptions."""


class UnreachableError(ClientError):
    """A broker could not be reached or did not respond in time."""

    #: Whether a request was sent on an open connection: the broker may have carried it out.
    was_sent = False


class AuthenticationError(ClientError):
    """A broker refuses this client's login, or the client does not trust the broker.

    Another attempt would end in the same way.
    """


class EndpointTypeError(ClientError):
    """A bootstrap server is a controller although brokers were expected, or a broker instead."""

    def __init__(self, address: str, *, is_controller: bool) -> None:
        found, expected = ("controller", "broker") if is_controller else ("broker", "controller")
        super().__init__(f"{address} is the listener of a {found}, not of a {expected}")
        self.address = address
        self.is_controller = is_controller

    def advice(self, *, has_controller_option: bool) -> str:
        """What to give to a command instead."""
        if not self.is_controller:
            return f"use --bootstrap-server {self.address}"
        if has_controller_option:
            return (
                f"use --bootstrap-controller {self.address}, or --bootstrap-server with the "
                "listener of a broker"
            )
        return (
            "controllers do not serve this command: give --bootstrap-server the listener of a "
            "broker"
        )


class UnsupportedApiError(ClientError):
    """A broker does not support an API, or no version of it that the client supports."""


class RefusedError(ClientError):
    """A broker responded with an error code."""

    def __init__(
        self, code: int, *, api: str, broker: str, subject: str = "", message: str | None = None
    ) -> None:
        detail = f": {message}" if message else ""
        about = f"{subject}: " if subject else ""
        super().__init__(f"{about}{error_name(code)}{detail} ({api}, error {code}, {broker})")
        self.code = code
        self.api = api
        self.broker = broker
        self.subject = subject
        self.message = message


def error_name(code: int) -> str:
    """The name of an error code, as Kafka's tools print it."""
    for name, number in vars(ErrorCode).items():
        if number == code and name.isupper():
            return name
    return f"error {code}"


#: Messages quote names and values, which may be long; a string field holds 32,767 bytes at most.
LONGEST_MESSAGE = 2000


def shortened(message: str) -> str:
    """A message truncated to fit into a response."""
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}..."


def message_of(error: BaseException) -> str:
    """The message of an exception for people; for an OSError its file and text, without errno."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
