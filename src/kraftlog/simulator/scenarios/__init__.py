"""Named scenarios, and what their scripts wait for."""
