"""Configuration: keys, values and precedence. Nothing here does I/O.

- Keys: `keys` finds them in the tables of `broker_keys` and `resource_keys`; `aliases` replaces
  their other names; `effective` lists the keys with an effect.
- Values: `values` parses and checks them, and `endpoints` addresses; `setting` declares a value as
  a typed attribute.
- A node's file: `properties` parses its text; `read_config` makes a `broker.BrokerConfig` of it;
  `combinations` and `safety` refuse settings with which no node should start.
- Dynamic configs: `layers` combines them with the file; `topic` has the effective configs of a
  topic; `describe` answers DescribeConfigs; `checks` validates changes.
"""
