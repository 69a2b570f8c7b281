"""The active controller of this node."""
