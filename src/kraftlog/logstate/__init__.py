"""Pure values about a log: leader epochs, producers, and voters."""
