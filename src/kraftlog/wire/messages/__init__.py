"""One module per API; the classes are the schema."""
