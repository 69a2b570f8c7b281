"""Interoperability with third-party software: Kafka's tools and classes, clients, kcat."""
