"""What torch allocates, which Python's own tracing of memory does not see."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class LargestTensor(TorchDispatchMode):
    """Notes the bytes of the largest tensor that is really allocated within it."""

    n_bytes = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: Any = (), keywords: Any = None
    ) -> Any:
        result = operation(*arguments, **(keywords or {}))
        if isinstance(result, torch.Tensor) and result.device.type != "meta":
            self.n_bytes = max(self.n_bytes, result.untyped_storage().nbytes())
        return result
