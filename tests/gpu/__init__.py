"""What is run where there is a GPU: `python -m tests.gpu PART`, in minutes rather than hours.

In: a bare checkout and a Python that has CuPy. Out: a line for each thing that was tried and a file
for each under build/gpu, which a later run does not try again; a summary in the folder $OUT.

| part | what it is | about |
|---|---|---|
| `quick` | the doctor, the golden kernels against NumPy, six workloads | 2 minutes |
| `tests` | all tests, a process for each file | 10 minutes |
| `bench` | the suite of `python -m bench --gpu` | 10 minutes |
| `sanitize` | compute-sanitizer on one program for each kind of kernel | 5 minutes |
| `repeat` | the golden kernels a hundred times: the same bits | 2 minutes |
| `long` | every float32 through every function of one operand, against float64 | 10 minutes |

Every part has a `--budget` in seconds and may be run again until nothing is left.
"""
