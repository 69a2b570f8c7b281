"""What the raft core draws jitter for: each number makes one use differ from the others."""

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
