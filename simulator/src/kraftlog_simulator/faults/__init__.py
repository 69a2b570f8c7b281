"""The faults of a run: the plan of a seed, and the effect of each kind."""
