"""The programs in examples/ run, and find what they should."""

import os
import subprocess
import sys

from tests.support import ROOT


def run(name: str, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_black_scholes_agrees_with_itself():
    text = run("black_scholes.py", "200000")
    assert "by_simulation: 1 kernel," in text
    assert "   100    12.822 " in text  # the price of an option at the money, by the formula


def test_a_state_space_layer_learns_to_remember():
    text = run("state_space.py", "150")
    assert "recurrence: 1 kernel," in text and "associative_scan" in text
    errors = [
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("step ") and ":" in line
    ]
    assert len(errors) == 5 and errors[0] > 0.2 and errors[-1] < 0.1


def test_kmeans_gets_closer():
    text = run("kmeans.py", "20000")
    distances = [
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("step ") and ":" in line
    ]
    assert len(distances) > 2
    assert distances[-1] < 3.0 < distances[0]
    assert all(b <= a for a, b in zip(distances, distances[1:]))


def test_profile_page_names_the_slowest(tmp_path):
    text = run("profile_training.py", str(tmp_path))
    assert "forward" in text and "dot_general" in text
    (path,) = tmp_path.rglob("*.trace.json.gz")
    assert str(path) in text


def test_explain_page_writes_two_pages(tmp_path):
    text = run("explain_page.py", str(tmp_path))
    assert "attention: 1 kernel, 2 library calls" in text
    assert "attention: 6 kernels, 2 library calls" in text
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "attention_fused.html",
        "attention_unfused.html",
    ]
