"""The time limit of waiting tests."""

#: Far more than any event needs, also on a busy machine: only a bug makes a test wait this long.
LIMIT_S = 120
