"""Client quotas: which one applies, and how long a client over it is throttled. Pure."""
