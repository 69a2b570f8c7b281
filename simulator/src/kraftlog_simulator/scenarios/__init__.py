"""Named scenarios, and the goals of their scripts."""
