"""Bugs that were put in on purpose, one file each: the simulator must find every one of them."""
