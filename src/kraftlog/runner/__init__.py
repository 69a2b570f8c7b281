"""Carries out a node's effects, for the server and for the simulator alike."""
