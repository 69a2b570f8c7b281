"""Real processes under load and faults: what they have acknowledged must be there afterwards."""
