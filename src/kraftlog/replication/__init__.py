"""One partition's life: leader, follower, high watermark, waiting requests."""
