"""Kernels as C++ loops for a CPU. The modules, in the order in which one may read them:

| module | contents |
|---|---|
| `emit` | which writer a kernel has; the text of a unit for the compiler |
| `writer` | `NativeSource`: functions over a range of tasks, and the phases that call them |
| `map` `tiles` `scan` `scatter` | a writer each, by form |
| `rows` `columns`, on `folds` | reductions |
| `schedule` | how work is cut into tasks: by shapes alone |
| `nests` | loops, each value in the outermost that knows its position; loops in pieces |
| `values` | expressions of values; `accesses` finds parts of them that are treated specially |
| `facts` | facts recorded about a text when it is written: no text is parsed |
| `routine` | steps of a plan as one function; `products` `windows` `sorts`: those without kernel |
| `loops` | loops and branches in routines; `carries`: from iteration to iteration; `blocks`: block
by block |
| `code` | the nested blocks that routines are written in; `room`: their memory |
"""
