"""The primitives, by kind, each in one place with all its rules. Floor 2."""
