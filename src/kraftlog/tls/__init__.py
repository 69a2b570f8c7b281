"""TLS for listeners, for connections between nodes and for clients.

Nothing here is imported by a node whose listeners are all PLAINTEXT.
"""
