"""How exact the special functions and the distributions are, with SciPy in float64 as the judge.

Run `python -m tests.accuracy` to write docs/accuracy.md. `table.py` says which function is tried
where; tests/unit/scipy/test_special.py holds every row to its limit.
"""
