"""What the authorizer is asked before a request is served, and what those get who may not."""
