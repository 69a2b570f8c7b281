"""The metadata image: the state of the cluster that the metadata log describes."""
