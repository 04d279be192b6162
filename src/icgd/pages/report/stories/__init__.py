"""What a report says, one file per kind of program."""
