"""Regular expressions of subscriptions, in the syntax of RE2, as Kafka's library re2j reads it."""
