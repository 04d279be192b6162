"""The run-time type checkers behind the import hooks of conftest.py.

An int is a fine float here (PEP 484's numeric tower), as it is for every caller of the package.
"""

from beartype import BeartypeConf, beartype

CONF = BeartypeConf(is_pep484_tower=True, claw_is_pep526=False)
typechecker = beartype(conf=CONF)
