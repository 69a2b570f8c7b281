"""What a run is held against besides its invariants, and what runs have covered."""
