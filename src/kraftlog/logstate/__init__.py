"""State derived from a log, without I/O: leader epochs, producers, and voters."""
