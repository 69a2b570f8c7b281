"""The pure whole: requests in, effects out."""
