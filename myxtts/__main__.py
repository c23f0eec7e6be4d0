"""`python -m myxtts` is the `myxtts` command."""

from myxtts.cli.app import main

if __name__ == "__main__":
    main()
