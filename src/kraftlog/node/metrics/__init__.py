"""What a node tells of itself: metrics, and whether it is well. Loaded when somebody asks."""
