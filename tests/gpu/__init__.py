"""What is run where there is a GPU: `python -m tests.gpu PART`, in minutes rather than hours.

In: a bare checkout and a Python that has CuPy. Out: a line for each thing that was tried and a file
for each under build/gpu, which a later run does not try again; after each, a summary in the folder
$OUT. A command is one part, and takes at most 540 seconds.

| part | what it is | about |
|---|---|---|
| `first` | what reading cannot settle: tickets, graphs, libraries, costs, PTX, pools | 2 minutes |
| `quick` | the doctor, the golden kernels against NumPy, six workloads | 2 minutes |
| `generic` | the laws of all primitives, in fourteen shares side by side | 2 times 9 minutes |
| `tests` | all other tests that launch anything, a process for each file | 9 minutes |
| `bench` | the suite of `python -m bench --gpu` | 9 minutes |
| `least` | the programs of tests/least_bytes, ours and JAX's, one timed at a time | 9 minutes |
| `sanitize` | compute-sanitizer on one program for each kind of kernel, the pool off | 5 minutes |
| `repeat` | the golden kernels a hundred times: the same bits | 2 minutes |
| `long` | every float32 through every function of one operand, against float64 | 9 minutes |

Every part has a `--budget` in seconds and may be run again until nothing is left.
"""
