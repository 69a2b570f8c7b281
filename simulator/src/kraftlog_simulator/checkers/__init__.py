"""Checks of what clients saw in a run, and the oracle that knows which batches are committed."""
