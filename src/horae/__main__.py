"""`python -m horae` is the command line."""

from horae.cli import main

if __name__ == "__main__":
    main()
