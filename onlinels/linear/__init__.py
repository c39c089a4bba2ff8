"""Linear models behind river's interface: columns, statistics and a ridge."""
