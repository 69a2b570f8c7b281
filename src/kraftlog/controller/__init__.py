"""The controller: turns requests into records and responses."""
