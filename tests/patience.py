"""How long tests wait for what has to come."""

#: A limit and no measure: what is waited for comes in a fraction of it, and a machine that does
#: much else at the same time still comes in time. Nothing waits so long unless something is wrong.
LIMIT_S = 120
