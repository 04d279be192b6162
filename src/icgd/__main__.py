"""`python -m icgd`: the same as the `icgd` command, for launchers that start modules."""

from icgd.cli import main

if __name__ == "__main__":
    main()
