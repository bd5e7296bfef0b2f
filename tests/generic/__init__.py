"""Tests of every primitive by the same few laws, over tests/samples.py."""
