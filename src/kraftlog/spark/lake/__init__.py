"""Topics as Delta tables: which columns and files they have, and what their commits record."""
