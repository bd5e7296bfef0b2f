"""What a Plan needs of a machine. Floor 4."""
