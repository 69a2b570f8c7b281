"""The simulation of whole nodes: real nodes, runners and storage, on virtual files."""
