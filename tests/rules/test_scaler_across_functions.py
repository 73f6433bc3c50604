"""DEV402: the protocol of a GradScaler across helpers, methods, returns and epochs."""

from __future__ import annotations

import pytest
from checking import expect

CODE = "DEV402"


def test_helpers_are_followed() -> None:
    expect(
        """
        import torch as th
        def go_back(value, s):
            scaled = s.scale(value)
            scaled.backward()
        def train(net, batches, sgd, amp_scaler):
            for batch in batches:
                sgd.zero_grad()
                go_back(net(batch).sum(), amp_scaler)
                sgd.step()  # <-
        """,
        CODE,
    )


def test_methods_are_followed_into_base_classes() -> None:
    expect(
        """
        import torch
        from torch.cuda.amp import GradScaler
        class Base:
            def optimise(self, loss):
                self.scaler.scale(loss).backward()
                self.clip()
                self.scaler.step(self.optimizer)
                self.finish()
            def clip(self):
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            def finish(self):
                self.scaler.update()
        class Trainer(Base):
            def __init__(self, net):
                self.net = net
                self.optimizer = torch.optim.Adam(net.parameters())
                self.scaler = GradScaler()
            def fit(self, loader):
                for x in loader:
                    self.optimise(self.net(x).mean())
        """.replace("self.clip()\n", "self.clip()  # <-\n"),
        CODE,
    )


def test_a_helper_that_updates_is_seen() -> None:
    expect(
        """
        import torch
        def finish(s, o):
            s.step(o)
            s.update()
        def train(net, batches, sgd):
            scaler = torch.amp.GradScaler("cuda")
            for batch in batches:
                sgd.zero_grad()
                scaler.scale(net(batch).sum()).backward()
                finish(scaler, sgd)
        """,
        CODE,
    )


def test_a_default_argument_decides_the_path() -> None:
    """`step=False` never comes to the update, and no call passes it to the paths of the other."""
    expect(
        """
        import torch
        class Scaler:
            def __init__(self):
                self._scaler = torch.amp.GradScaler("cuda")
            def __call__(self, loss, optimizer, parameters, step=True):
                self._scaler.scale(loss).backward()
                if step:
                    self._scaler.unscale_(optimizer)
                    norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                    self._scaler.step(optimizer)
                    self._scaler.update()
        """,
        CODE,
    )


def test_a_function_that_is_left_between_unscale_and_update_is_reported() -> None:
    expect(
        """
        import torch
        class Scaler:
            def __init__(self):
                self._scaler = torch.amp.GradScaler("cuda")
            def __call__(self, loss, optimizer, parameters, clip=None, step=True):
                self._scaler.scale(loss).backward()
                if clip is not None:
                    self._scaler.unscale_(optimizer)  # <-
                    torch.nn.utils.clip_grad_norm_(parameters, clip)
                if step:
                    self._scaler.step(optimizer)
                    self._scaler.update()
        """,
        CODE,
    )


def test_an_early_return_skips_the_update() -> None:
    expect(
        """
        import torch
        class Trainer:
            def step(self, loss):
                self.opt.zero_grad()
                self.scaler.scale(loss).backward()
                self.scaler.unscale_(self.opt)
                norm = torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                if not torch.isfinite(norm):
                    return  # <-
                self.scaler.step(self.opt)
                self.scaler.update()
        """,
        CODE,
    )


def test_a_scaler_made_anew_in_each_epoch_is_reported() -> None:
    expect(
        """
        import torch
        def main(net, batches):
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for epoch in range(10):
                scaler = torch.amp.GradScaler("cuda")  # <-
                for batch in batches:
                    scaler.scale(net(batch).mean()).backward()
                    scaler.step(optimizer)
                    scaler.update()
        """,
        CODE,
    )


EPOCHS = """
    import torch
    def epoch(net, batches, optimizer):
        scaler = torch.amp.GradScaler("cuda"){mark}
        for batch in batches:
            scaler.scale(net(batch).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
    def main(net, batches):
        {before}
        for _ in range(3):
            {inside}
            epoch(net, batches, optimizer)
    """
BUILD = "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)"


def test_a_scaler_made_anew_in_the_function_of_an_epoch_is_reported() -> None:
    expect(EPOCHS.format(mark="  # <-", before=BUILD, inside="pass"), CODE)


def test_a_loop_that_makes_its_optimizer_anew_makes_its_scaler_anew() -> None:
    expect(EPOCHS.format(mark="", before="pass", inside=BUILD), CODE)


def agent(*, init: str = "", update: str = "", after: str = "") -> str:
    return f"""
        import torch
        class Agent:
            def __init__(self, net, base):
                self.net = net
                self.optimizer = torch.optim.Adam(net.parameters())
                self.scaler = torch.amp.GradScaler("cuda"){init}
            def learn(self, x):
                loss = self.net(x).mean()
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer){update}
            def other(self):
                {after or "return None"}
        """


def test_a_scaler_that_nothing_in_the_file_updates_is_reported_where_it_steps() -> None:
    expect(agent(update="  # <-"), CODE)


@pytest.mark.parametrize(
    "after",
    [
        "self.scaler.update()",
        "self.finish(self.scaler)",
        "agent = self\n                agent.scaler.update()",
    ],
)
def test_a_scaler_that_another_method_updates_is_not(after: str) -> None:
    expect(agent(after=after), CODE)


def test_a_scaler_that_a_base_class_makes_and_nothing_updates_is_reported() -> None:
    expect(
        """
        import torch
        class Base:
            def __init__(self):
                self.scaler = torch.amp.GradScaler("cuda")
        class Agent(Base):
            def learn(self, x):
                loss = self.net(x).mean()
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)  # <-
        """,
        CODE,
    )
