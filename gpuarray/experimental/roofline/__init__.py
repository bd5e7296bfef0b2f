"""How many operations and bytes a function takes, from its shapes alone: `roofline`.

Floor 6. In: functions and types of arguments. Out: a RooflineResult. `explain` shows what a program
launches and moves on this library; these are figures of the function, as other compilers have them.
"""

from gpuarray.experimental.roofline.count import register_roofline as register_roofline
from gpuarray.experimental.roofline.count import (
    register_standard_roofline as register_standard_roofline,
)
from gpuarray.experimental.roofline.count import roofline as roofline
from gpuarray.experimental.roofline.count import roofline_and_grad as roofline_and_grad
from gpuarray.experimental.roofline.results import RooflineResult as RooflineResult
from gpuarray.experimental.roofline.results import RooflineRuleContext as RooflineRuleContext
from gpuarray.experimental.roofline.results import RooflineShape as RooflineShape
from gpuarray.names import explain_names as _explain_names

__all__ = [
    "RooflineResult",
    "RooflineRuleContext",
    "RooflineShape",
    "register_roofline",
    "register_standard_roofline",
    "roofline",
    "roofline_and_grad",
]

__getattr__ = _explain_names(__name__)
