"""A pytest plugin: tests that parse absl's flags find none, and not pytest's own arguments."""

import sys

sys.argv[1:] = []
