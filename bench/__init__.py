"""Measurements; `python -m bench` runs all of them."""
