"""How arrays are laid over devices.

Floor 6. The public face of `gpuarray.core.sharding`.
"""

from gpuarray.core.sharding import Sharding as Sharding
from gpuarray.core.sharding import SingleDeviceSharding as SingleDeviceSharding
