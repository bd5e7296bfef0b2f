"""What a function becomes: a page with its kernels beside its source lines, fused and unfused.

Run: python examples/explain_page.py [FOLDER]
"""

import sys
from pathlib import Path

import gpuarray as ga
import gpuarray.numpy as gnp


def attention(q, k, v):
    """Softmax attention of one head: q, k, v (length, width) -> (length, width)."""
    scores = q @ k.T / q.shape[1] ** 0.5
    weights = gnp.exp(scores - gnp.max(scores, axis=1, keepdims=True))
    weights = weights / gnp.sum(weights, axis=1, keepdims=True)
    return weights @ v


def main(folder: Path) -> None:
    shapes = [ga.ShapeDtypeStruct((4096, 128), "float32")] * 3  # nothing is computed
    folder.mkdir(parents=True, exist_ok=True)
    for fused in (True, False):
        with ga.fusion(fused):
            explanation = ga.explain(attention)(*shapes)
        print(explanation, "\n")
        path = folder / f"attention_{'fused' if fused else 'unfused'}.html"
        path.write_text(explanation.to_html(), encoding="utf-8")
        print(f"written: {path}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/examples"))
