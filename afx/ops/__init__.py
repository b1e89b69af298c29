"""What can be computed: one family of ops a file, each op's rules directly beside it."""
