"""One program over many devices: what exchanges between them cost."""
