"""The invariants of liveness (V24): nothing waits for what has happened already."""
