"""The run-time type checker behind the import hook of conftest.py.

An int is a fine float here (PEP 484's numeric tower), as it is for every caller of the package.
"""

from beartype import BeartypeConf, beartype

typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))
