"""What goes wrong in a run: the plan of a seed, and what each kind of fault does."""
