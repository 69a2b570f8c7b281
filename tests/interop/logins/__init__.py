"""Each client's logins by each mechanism, right and wrong, with and without TLS."""
