"""Entry point of `python -m mdf_loop`, which runs the command line program `mdf-loop`."""

from mdf_loop.cli import main

if __name__ == "__main__":
    main()
