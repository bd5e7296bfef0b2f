"""CUDA as a language: types, what each primitive is written as, what every source includes."""
