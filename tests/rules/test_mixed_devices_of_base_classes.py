"""DEV102: Modules that a class hands to the constructor of its base, which may move them."""

from __future__ import annotations

import pytest
from checking import expect

CODE = """
    import torch
    from torch import nn
    {imports}
    class Wrapper(Base):
        def __init__(self, device):
            self.model = nn.Linear(3, 3)
            {handed}
            self.device = device
        def predict(self, x):
            return self.model(torch.tensor(x, device=self.device)){mark}
    """
MOVING = """
    class Base:
        def __init__(self, model, device=None):
            self.net = model.to(device)
    """
KEEPING = MOVING.replace(".to(device)", "")


@pytest.mark.parametrize(
    ("imports", "handed"),
    [
        ("from elsewhere import Base", "super().__init__(self.model)"),
        ("from elsewhere import Base", "super(Wrapper, self).__init__(model=self.model)"),
        (MOVING, "super().__init__(self.model, device)"),
    ],
)
def test_a_base_class_may_move_what_it_gets(imports: str, handed: str) -> None:
    expect(CODE.format(imports=imports.lstrip(), handed=handed, mark=""), "DEV102")


@pytest.mark.parametrize(
    ("imports", "handed"),
    [
        ("class Base: pass", "super().__init__()"),
        (KEEPING, "super().__init__(self.model)"),
    ],
)
def test_a_base_class_that_moves_nothing_leaves_it_where_it_was(imports: str, handed: str) -> None:
    expect(CODE.format(imports=imports.lstrip(), handed=handed, mark="  # <-"), "DEV102")


@pytest.mark.parametrize(
    ("call", "reported"), [("place(net)", False), ("place(module=net)", False), ("print(net)", True), ("pass", True)]
)
def test_a_call_that_nobody_knows_may_move_a_module_however_it_gets_it(call: str, reported: bool) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        from elsewhere import place
        def predict(x, device):
            net = nn.Linear(3, 3)
            {call}
            return net(torch.tensor(x, device=device)){"  # <-" if reported else ""}
        """,
        "DEV102",
    )
