"""Visits every run of a few real cores within a bound, not a sample.

docs/understand/explorer.md explains it.

bounds        the limits: nodes, epochs, records, crashes
node          one replica with its disk and its unsent messages
step          the effect of one event on one node
quorum        the states of all nodes and messages, and their moves
quorum_space  the same with what the search needs: keys of states, and paths as text
tables        numbers for nodes, messages and histories; a state consists of such numbers
keys          keys of nodes, messages and histories, by which they get their numbers
symmetry      states that differ only by the names of the nodes count once
invariants    what must hold in every state
search        breadth first, so that a counterexample is as short as possible
trace         the moves of a counterexample as text
replication   the same for one replicated partition
"""
