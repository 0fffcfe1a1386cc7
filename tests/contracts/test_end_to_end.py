"""Every registered end-to-end method keeps the contract, in every variant it has."""

import pytest
import torch
from torch import nn

from wiesel import (
    ASTRA,
    MBEM,
    AggNet,
    AnnotMix,
    COINNet,
    Committee,
    CoNAL,
    ConfusionNet,
    CrowdLayer,
    DeepLogic,
    DoctorNet,
    EndToEndModel,
    ImplyLoss,
    MajorityVote,
    MaxMIG,
    Raykar,
    Supervised,
    TwoStage,
    WeaSEL,
)
from wiesel.end_to_end import REGISTRY
from wiesel.testing import ContractError, check_end_to_end

NET = nn.Linear(3, 3)
MODELS: dict[str, EndToEndModel] = {
    "weasel": WeaSEL(NET, lr=0.01),
    "weasel, paper": WeaSEL.paper(NET, encoder=(8,), lr=0.01),
    "weasel, class-conditional, mig": WeaSEL.paper(
        NET, encoder=(8,), lr=0.01, class_conditional=True, loss="mig"
    ),
    "weasel, graph": WeaSEL.paper(NET, encoder="graph", lr=0.01),
    # How the networks of a member are averaged is told in test_committee.py.
    "committee": Committee(NET, networks=1, lr=0.01),
    "two_stage": TwoStage(MajorityVote(), NET, lr=0.01),
    "two_stage, mig": TwoStage(MajorityVote(), NET, lr=0.01, loss="mig"),
    "supervised": Supervised(NET, lr=0.01),
    "max_mig": MaxMIG(NET, lr=0.01),
    "max_mig, dawid-skene start": MaxMIG(NET, lr=0.01, start="dawid_skene"),
    "crowd_layer": CrowdLayer(NET, lr=0.01),
    "crowd_layer, VW+B": CrowdLayer(NET, variant="VW+B", lr=0.01),
    "crowd_layer, low rank": CrowdLayer(NET, rank=2, lr=0.01),
    "doctor_net": DoctorNet(NET, lr=0.01),
    "doctor_net, WDN": DoctorNet(NET, variant="WDN", lr=0.01),
    "doctor_net, IWDN": DoctorNet(NET, variant="IWDN", lr=0.01),
    "doctor_net, BIWDN": DoctorNet(NET, variant="BIWDN", lr=0.01),
    "mbem": MBEM(NET, m_epochs=2, lr=0.01),
    "agg_net": AggNet(NET, lr=0.01),
    "raykar": Raykar(NET, m_epochs=2, lr=0.01),
    "confusion_net": ConfusionNet(NET, lr=0.01),
    "confusion_net, trace": ConfusionNet(NET, regularizer="trace", lr=0.01),
    "confusion_net, volume_f": ConfusionNet(NET, regularizer="volume_f", lr=0.01),
    "confusion_net, volume_w": ConfusionNet(NET, regularizer="volume_w", lr=0.01),
    "confusion_net, shared": ConfusionNet(NET, structure="shared", lr=0.01),
    "confusion_net, union": ConfusionNet(NET, structure="union", lr=0.01),
    "conal": CoNAL(NET, lr=0.01),
    "coin_net": COINNet(NET, lr=0.01),
    "annot_mix": AnnotMix(NET, lr=0.01),
    "deep_logic": DeepLogic(NET, lr=0.01),
    "imply_loss": ImplyLoss(NET, lr=0.01),
    "astra": ASTRA(NET, lr=0.01),
}


@pytest.fixture(autouse=True)
def _one_thread():
    # Tiny matrices gain nothing from threads, and lose much on a busy machine.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# A method's own variants take as long as all methods together.
CASES = [pytest.param(name, marks=pytest.mark.slow if "," in name else ()) for name in MODELS]


@pytest.mark.parametrize("name", CASES)
def test_every_method_keeps_the_contract(name: str):
    assert len(check_end_to_end(MODELS[name])) > 15


def test_every_registered_method_is_checked():
    checked = {name.split(",")[0] for name in MODELS}
    assert len(checked) > 8
    assert checked == set(REGISTRY)


def test_a_method_that_trains_the_users_own_module_breaks_the_contract():
    class Careless(TwoStage):
        def _objective(self, end_model, plan):
            return super()._objective(self.end_model, plan)

    with pytest.raises(ContractError, match="user's end model was changed"):
        check_end_to_end(Careless(MajorityVote(), NET, lr=0.01))


def test_a_method_that_ignores_the_seed_breaks_the_contract():
    class Unseeded(TwoStage):
        def _objective(self, end_model, plan):
            torch.seed()
            return super()._objective(end_model, plan)

    with pytest.raises(ContractError, match="same"):
        check_end_to_end(Unseeded(MajorityVote(), NET, lr=0.01))
