"""Networks without memory, and without torch's compiler."""

import subprocess
import sys

import torch
from torch import nn

from wiesel.nn.shapes import shapes_only


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


def test_a_network_is_laid_out_without_torchs_compiler():
    code = """
import sys
import torch
from wiesel.end_to_end.crowd.confusion_net import starting_matrix
from wiesel.end_to_end.crowd.crowd_layer import VoterLayer
from wiesel.nn import LSTM
from wiesel.nn.shapes import shapes_only
with shapes_only():
    LSTM(100, 2), starting_matrix(0.8, 3), VoterLayer(5, 3, "MW", rank=2)
print("torch._dynamo" in sys.modules)
"""
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stdout == "False\n"
