"""MPI: processes started by ``mpiexec`` as the ranks of slots (extra ``distributed``)."""
