"""Bugs made on purpose, one file each: the simulator or a test must find every one."""
