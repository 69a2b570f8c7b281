"""A recorded run as one self-contained page."""
