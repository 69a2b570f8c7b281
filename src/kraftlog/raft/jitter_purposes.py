"""The uses of jitter in the raft core; each has a number, so that no two draw the same jitter."""

from __future__ import annotations

DISCOVERY = 1
ELECTION_BACKOFF = 2
LEADER_WAIT = 3
DISCOVERED_PEER = 4
PRE_VOTE_TIMEOUT = 5
ELECTION_TIMEOUT = 6
RESIGNED_WAIT = 7
OBSERVER_DISCOVERY = 8
DOWN_PEER = 9
