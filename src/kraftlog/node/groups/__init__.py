"""A broker's part in consumer groups: its shards, their requests, their log."""
