"""Native forms of calls: a family of ops a file, and the table that finds them."""
