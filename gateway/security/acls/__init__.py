"""ACLs: the rules of the cluster by resource, and the decisions about requests."""
