"""Numbers for people, as every surface writes them."""

from clew.model.figures import cost as cost
from clew.model.figures import count as count
from clew.model.figures import number_if_any as number_if_any
