"""The command line: `python -m gpuarray`. Nothing here is loaded by `import gpuarray`.

Floor 8. In: arguments. Out: text, and files in the folder the user names.
"""
