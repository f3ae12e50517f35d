"""Conditions on a message's headers and properties, in the SQL of JMS: which messages a consumer wants."""
