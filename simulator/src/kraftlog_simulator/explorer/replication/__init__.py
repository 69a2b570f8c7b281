"""Every run of one replicated partition within a bound: see docs/understand/explorer-partition.md.

bounds      the limits: elections, records, crashes
process     the host of a real ReplicaManager and of the handlers of Produce and Fetch
log         the log of a broker, in memory
broker      one broker with its disk, and the effect of one event on it
metadata    the host of a real Controller, and the metadata log
cluster     the states of brokers, metadata and messages, and their moves
space       `cluster` with what the search needs: keys of states, and paths as text
objects     copies and keys of real objects
invariants  what must hold in every state
trace       states and moves as text
"""
