"""The simulated world of a whole cluster: brokers, controllers, and clients of partitions."""
