"""The metadata quorum: pull-based Raft as a pure core. Its interface is `core.RaftCore`."""
