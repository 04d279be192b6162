"""The honest cost model: what every construction costs at equal error, and what its paper leaves out."""

from icgd.costs.account import cost as cost
from icgd.costs.method_cost import MethodCost as MethodCost
from icgd.costs.program_cost import ProgramCost as ProgramCost
