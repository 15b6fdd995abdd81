"""ACLs on both sides: the index of rules, the hosts of rules, and the decision with the rule that decides."""
