"""Changes of the cluster by a visitor: each is shown before it is made."""
