"""SASL's mechanisms, both sides: bytes in, bytes out."""
