"""Carries out effects on storage, the same for both hosts."""
