"""Key stores, certificates and sessions of TLS."""
