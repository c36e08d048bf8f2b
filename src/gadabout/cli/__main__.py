"""`python -m gadabout.cli`, for when the console script is not on the path."""

from gadabout.cli import main

main()
