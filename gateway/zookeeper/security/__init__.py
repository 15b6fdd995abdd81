"""How this broker reaches ZooKeeper: TLS, a login, the ACLs of nodes."""
