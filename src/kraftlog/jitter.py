"""Jitter without a random source: it differs between nodes and attempts, and is reproducible."""

from __future__ import annotations

_MASK = (1 << 64) - 1
#: 2^64 divided by the golden ratio: multiplying by it spreads similar numbers over all bits.
_MULTIPLIER = 0x9E3779B97F4A7C15


def jitter(seed: int, *numbers: int, below: int) -> int:
    """A pseudo-random number below `below`, a pure function of its arguments."""
    mixed = seed & _MASK
    for number in numbers:
        mixed = (mixed ^ (number & _MASK)) * _MULTIPLIER & _MASK
        mixed ^= mixed >> 29
    mixed = mixed * _MULTIPLIER & _MASK
    return (mixed >> 16) % below if below > 0 else 0
