"""Topics as Iceberg tables, which PyIceberg writes without a JVM and without a catalog's server."""
