"""The cluster as data: what the records of the metadata log add up to."""
