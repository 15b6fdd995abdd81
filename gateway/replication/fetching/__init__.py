"""The follower's fetches from leaders: the pure machine, and the tasks with a link to each leader."""
