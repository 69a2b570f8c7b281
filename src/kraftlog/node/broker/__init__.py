"""A broker's part in its cluster: lifecycle, controller channel, topics, producer ids."""
