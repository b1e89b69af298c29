"""Philox: constants of the generator Philox4x32-10 (Salmon et al. 2011), which back ends share."""

from __future__ import annotations

__all__ = ["PHILOX_FACTORS", "PHILOX_ROUNDS", "PHILOX_STEPS"]

PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)  # what each round adds to the two words of the key
PHILOX_ROUNDS = 10
