"""`headgate doctor`: what keeps a broker of any Kafka from being used, each with its cure.

    check_result.py      one row, the exit code, the table; shared with `headgate spark doctor`
    command.py           the command: which checks run, in which order
    connecting/          one address as a client dials it: name, port, protocol, TLS, login
    cluster/             what brokers say: versions, advertised addresses, replicas, links, clocks, a canary record
    zookeeper/           ZooKeeper's servers and nodes
    host/                the machine of the broker: limits, disks, data directories, settings, ports, time

Each check is a pure function over what was read, and yields rows. The modules that read (sockets, files of the system)
decide nothing.
"""
