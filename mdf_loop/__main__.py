"""`python -m mdf_loop` is the program `mdf-loop`."""

from mdf_loop.cli import main

if __name__ == "__main__":
    main()
