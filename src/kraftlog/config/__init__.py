"""Configuration: which keys there are, what their values may be, what they come to.

`keys` knows every key of Kafka 4.3; `values` reads and checks one value; `properties` reads a
file; `broker` is what a node was started with; `layers` joins that with what was set at run time;
`topic` is what a topic's settings come to; `describe` answers DescribeConfigs; `checks` refuses
what can't be set; `effective` says which keys do something here. All of it is pure.
"""
