"""Pure values about a log: leader epochs and producers. The core owns the live copy."""
