"""One program over many devices: the costs of exchanges."""
