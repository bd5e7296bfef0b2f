"""Graph to Graph: the same values by less work."""
