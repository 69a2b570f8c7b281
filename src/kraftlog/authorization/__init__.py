"""Who may do what: the rules of Kafka's StandardAuthorizer, over the ACLs of the metadata log."""
