"""Other people's software, which ours must get along with: Kafka's tools and classes, kcat."""
