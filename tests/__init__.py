"""The tests and what they share (samples, the parity harness); run pytest from the checkout."""
