"""What the brokers of a cluster say: any Kafka, over the wire alone.

survey.py          all questions to one cluster, and the rows of their answers
broker_configs.py  the settings of each broker that says them, and which broker answers at an address
release.py         the versions of a broker: which release that is, which clients it serves
advertised.py      each advertised address as a client dials it; shared with `headgate spark doctor`
replicas.py        controller, leaders, in-sync replicas, brokers that are down
links.py           the listeners between brokers
volumes.py         log directories of each broker: errors, free space
clocks.py          the clocks of brokers beside the one of this machine
canary.py          a record there and back, in each partition of one topic
health.py          `/readyz` and `/v1/broker.json` of Headgate
"""
