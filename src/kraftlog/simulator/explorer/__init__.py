"""Every run of a few real cores within a bound, not a sample of them: see docs/simulator.md.

bounds      how far: nodes, epochs, records, crashes
state       one moment of all nodes and messages
carry       what a core's effects do to the state
moves       what may happen next
symmetry    states that differ only by the names of the nodes are one
invariants  what must hold in every state
search      breadth first, so that a counterexample is as short as can be
"""
