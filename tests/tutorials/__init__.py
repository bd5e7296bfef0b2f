"""The acceptance tests of the founding texts."""
