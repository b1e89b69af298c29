"""Emission: native programs as LLVM IR, printed as text."""
