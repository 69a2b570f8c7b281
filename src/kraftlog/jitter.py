"""Jitter without a random source: it differs between nodes and attempts, and is reproducible."""

from __future__ import annotations

_MASK = (1 << 64) - 1
_PRIME = 0x9E3779B97F4A7C15


def jitter(seed: int, *what: int, below: int) -> int:
    """A pseudo-random number below `below`, a pure function of its arguments."""
    mixed = seed & _MASK
    for number in what:
        mixed = (mixed ^ (number & _MASK)) * _PRIME & _MASK
        mixed ^= mixed >> 29
    mixed = mixed * _PRIME & _MASK
    return (mixed >> 16) % below if below > 0 else 0
