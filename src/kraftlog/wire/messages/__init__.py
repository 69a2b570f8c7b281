"""One file per API: the classes are the schema."""
