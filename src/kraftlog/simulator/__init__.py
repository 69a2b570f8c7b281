"""The virtual host: time, network and disk that a seed decides."""
