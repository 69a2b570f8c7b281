"""`kraftlog delegation-tokens`: the flags of `kafka-delegation-tokens`."""

from __future__ import annotations

from kraftlog.cli.common import UsageError, new_parser, run_with_client
from kraftlog.cli.show import print_json, print_table
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.delegation_tokens import DelegationToken

#: The options that each action takes; others are refused, as by Kafka's tool.
OPTIONS = {
    "create": {"owner_principal", "renewer_principal", "max_life_time_period"},
    "renew": {"hmac", "renew_time_period"},
    "expire": {"hmac", "expiry_time_period"},
    "describe": {"owner_principal"},
}
HEADS = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")


def _parser() -> argparse.ArgumentParser:
    from kraftlog.client.arguments import MAX_INT64
    from kraftlog.client.command_parser import whole_number

    parser = new_parser(
        "delegation-tokens",
        "Create, renew, expire and describe delegation tokens, by which clients log in.",
        "--create --renewer-principal User:bob --command-config alice.properties",
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--create", action="store_true", help="create a token")
    action.add_argument("--renew", action="store_true", help="have a token live on from now")
    action.add_argument("--expire", action="store_true", help="have a token end earlier, or now")
    action.add_argument("--describe", action="store_true", help="describe tokens, with their HMACs")
    parser.add_argument(
        "--owner-principal",
        action="append",
        metavar="TYPE:NAME",
        type=_principal,
        help="owner of a new token; default: the user; with --describe, repeatable: only tokens "
        "that it owns or may renew",
    )
    parser.add_argument(
        "--renewer-principal",
        action="append",
        metavar="TYPE:NAME",
        type=_principal,
        help="user who may renew and expire the new token, repeatable",
    )
    parser.add_argument("--hmac", metavar="BASE64", help="HMAC of the token")
    for name, what in (
        ("--max-life-time-period", "longest life of a new token"),
        ("--renew-time-period", "life of the token from now on"),
        ("--expiry-time-period", "rest of the token's life"),
    ):
        default = "-1: at once" if name == "--expiry-time-period" else "-1 (default): the brokers'"
        parser.add_argument(
            name, type=whole_number(-1, MAX_INT64), metavar="MS", help=f"{what}; {default}"
        )
    return parser


def run(arguments: Sequence[str]) -> int:
    return run_with_client("delegation-tokens", _parser().parse_args(arguments), _work)


def _principal(text: str) -> str:
    kind, colon, name = text.strip().partition(":")
    if not (kind and colon and name):
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text}: expected TYPE:NAME, as in User:alice")
    return text.strip()


def _work(client: Client, options: argparse.Namespace) -> None:
    action = _checked_action(options)
    if action == "create":
        _create(client, options)
    elif action == "describe":
        from kraftlog.client.delegation_tokens import describe_tokens

        _print(describe_tokens(client, options.owner_principal), options)
    else:
        _move_end(client, options)


def _checked_action(options: argparse.Namespace) -> str:
    (action,) = [name for name in OPTIONS if getattr(options, name)]
    for name in set().union(*OPTIONS.values()) - OPTIONS[action]:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} does not go with --{action}")
    if "hmac" in OPTIONS[action] and options.hmac is None:
        raise UsageError(f"--{action} needs --hmac")
    if action == "expire" and options.expiry_time_period is None:
        raise UsageError("--expire needs --expiry-time-period; -1: at once")
    return action


def _create(client: Client, options: argparse.Namespace) -> None:
    from kraftlog.client.delegation_tokens import create_token

    owners = options.owner_principal or [""]
    if len(owners) > 1:
        raise UsageError("--create takes one --owner-principal")
    token = create_token(
        client,
        owner=owners[0],
        renewers=options.renewer_principal or (),
        max_lifetime_ms=_period(options.max_life_time_period),
    )
    _print([token], options)


def _move_end(client: Client, options: argparse.Namespace) -> None:
    from base64 import b64decode

    from kraftlog.client.delegation_tokens import expire_token, renew_token

    try:
        hmac = b64decode(options.hmac, validate=True)
    except ValueError:  # it says no more: the HMAC is a password
        raise UsageError("--hmac: expected base 64, as --describe prints it") from None
    if options.renew:
        end_ms = renew_token(client, hmac, _period(options.renew_time_period))
    else:
        end_ms = expire_token(client, hmac, options.expiry_time_period)
    if options.json:
        print_json({"expiryTimestampMs": end_ms})
    else:
        print(f"The token expires at {_time(end_ms)}.")


def _period(period_ms: int | None) -> int:
    return -1 if period_ms is None else period_ms


def _print(tokens: Sequence[DelegationToken], options: argparse.Namespace) -> None:
    if options.json:
        print_json([_fields(token) for token in tokens])
        return
    print_table(
        HEADS,
        [
            (
                *(token.token_id, token.hmac, token.owner, token.requester),
                ",".join(token.renewers),
                *map(_time, (token.issued_ms, token.expires_ms, token.max_ms)),
            )
            for token in tokens
        ],
    )


def _fields(token: DelegationToken) -> dict[str, object]:
    return {
        "tokenId": token.token_id,
        "hmac": token.hmac,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issueTimestampMs": token.issued_ms,
        "expiryTimestampMs": token.expires_ms,
        "maxTimestampMs": token.max_ms,
    }


def _time(time_ms: int) -> str:
    """A time to the second, in UTC; one that has no date stays a number."""
    from datetime import UTC, datetime

    try:
        text = datetime.fromtimestamp(time_ms // 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
    return text.replace("+00:00", "Z")
