"""Networks without memory; tests/architecture looks at what laying them out loads."""

import torch
from torch import nn

from wiesel.nn.end_models import shapes_only


def test_initial_values_keep_their_shape():
    with shapes_only():
        identity = torch.eye(3)
        made = [
            torch.randn(2, 3) / 2,
            torch.eye(4, 2),
            nn.init.normal_(tensor=torch.empty(5)),
            (0.8 * identity + 0.1 * (1 - identity)).log(),
            torch.ones(3, 1) + torch.ones(1, 2),
        ]
    assert [tuple(tensor.shape) for tensor in made] == [(2, 3), (4, 2), (5,), (3, 3), (3, 2)]
    assert all(tensor.is_meta for tensor in made)
    assert not torch.randn(1).is_meta
