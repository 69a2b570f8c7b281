"""Compares tables of archived records with the log: files, offsets and checksums."""
