"""Random words as LLVM IR: blocks of Philox4x32-10 (Salmon et al. 2011), in integers of 64 bits."""

from __future__ import annotations

from afx.compiler.native_backend.llvm.nested import start_of
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Routine
from afx.compiler.random_tables import PHILOX_FACTORS, PHILOX_ROUNDS, PHILOX_STEPS

__all__ = ["emit_words"]

MASK = 0xFFFFFFFF
BLOCK_BYTES = 16


def emit_words(w: Writer, step: Routine) -> None:
    """Add the loops over keys and blocks."""
    key, *counter, out = [start_of(w, ref) for ref in step.operands]
    (keys, blocks, _), (purpose,) = step.space, step.sizes

    def of_key(k: str) -> None:
        words = w.shifted(key, w.let(f"mul nsw i64 {k}, 8"))
        first, second = (_wide(w, w.let(f"load i32, ptr {w.shifted(words, at)}, align 4")) for at in (0, 4))
        rows = w.shifted(out, w.let(f"mul nsw i64 {k}, {blocks * BLOCK_BYTES}"))
        if counter:
            number = w.let(f"load i64, ptr {w.shifted(counter[0], w.let(f'mul nsw i64 {k}, 8'))}")
            _block(w, (first, second), number, purpose, rows)
            return
        w.loop(
            "0", str(blocks), 1,
            lambda i: _block(w, (first, second), i, purpose, w.shifted(rows, w.let(f"mul nsw i64 {i}, {BLOCK_BYTES}"))),
        )  # fmt: skip

    w.loop("0", str(keys), 1, of_key)


def _wide(w: Writer, word: str) -> str:
    return w.let(f"zext i32 {word} to i64")


def _low(w: Writer, x: str) -> str:
    return w.let(f"and i64 {x}, {MASK}")


def _high(w: Writer, x: str) -> str:
    return w.let(f"lshr i64 {x}, 32")


def _block(w: Writer, key: tuple[str, str], number: str, purpose: int, out: str) -> None:
    """Add one block: rounds on four words, the key growing with each."""
    x0, x1, x2, x3 = _low(w, number), _high(w, number), "0", str(purpose)
    k0, k1 = key
    for _ in range(PHILOX_ROUNDS):
        p0 = w.let(f"mul i64 {x0}, {PHILOX_FACTORS[0]}")
        p1 = w.let(f"mul i64 {x2}, {PHILOX_FACTORS[1]}")
        x0, x1, x2, x3 = _mixed(w, p1, x1, k0), _low(w, p1), _mixed(w, p0, x3, k1), _low(w, p0)
        k0, k1 = (_low(w, w.let(f"add i64 {k}, {s}")) for k, s in zip((k0, k1), PHILOX_STEPS, strict=True))
    for at, (low, high) in enumerate(((x0, x1), (x2, x3))):
        pair = w.let(f"or i64 {low}, {w.let(f'shl i64 {high}, 32')}")
        w.line(f"store i64 {pair}, ptr {w.shifted(out, 8 * at)}, align 8")


def _mixed(w: Writer, product: str, x: str, k: str) -> str:
    return w.let(f"xor i64 {w.let(f'xor i64 {_high(w, product)}, {x}')}, {k}")
