"""Native back end: programs of fused loops as machine code, made by LLVM in a child process (extra ``native``)."""
