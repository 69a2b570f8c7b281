"""The node, a state machine that connects the cores: requests in, effects out."""
