"""Configuration: keys, values and precedence.

`keys` has every key of Kafka 4.3; `values` parses and checks a value; `properties` reads a file;
`broker` has the settings of a node; `layers` combines them with dynamic configs; `topic` has the
effective configs of a topic; `describe` answers DescribeConfigs; `checks` validates changes;
`effective` lists the keys with an effect. All of it is pure.
"""
