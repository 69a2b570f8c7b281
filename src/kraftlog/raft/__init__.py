"""The metadata quorum: pull-based Raft as a pure core. `RaftCore` in `core` is the door."""
