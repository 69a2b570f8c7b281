"""Topics as Delta or Iceberg tables: their columns and files, and what commits record."""
