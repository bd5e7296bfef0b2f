"""What tests share: simulators, NVRTC, random programs, what counts as equal, other targets."""

from pathlib import Path

#: The checkout.
ROOT = Path(__file__).resolve().parents[2]
