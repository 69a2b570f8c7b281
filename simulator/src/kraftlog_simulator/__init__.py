"""A simulated environment: virtual time, network and disks, all determined by a seed."""
