"""The active controller: what this node decides while it leads the quorum."""
