"""C++ text of elements: types, constants, expressions, and the common prelude."""
