"""Real processes under load and faults; acknowledged operations must survive."""
