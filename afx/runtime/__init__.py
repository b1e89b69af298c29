"""Runtime: threads, BLAS, the autotuner and memory that compiled functions share."""
