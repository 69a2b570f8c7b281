"""Server-side assignors: which member of a consumer group gets which partitions."""
