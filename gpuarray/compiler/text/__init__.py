"""C++ text of elements: types, constants, expressions, and what every source includes."""
