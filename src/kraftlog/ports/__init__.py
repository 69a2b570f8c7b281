"""Interfaces to the host: files, logs, threads, processes and connections."""
