"""Native programs: steps over pointers as frozen data."""
