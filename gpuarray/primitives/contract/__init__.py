"""Primitives that sum products: contractions, convolutions, ragged products, Fourier transforms."""
