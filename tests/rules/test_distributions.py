"""Distributions sample where their parameters are, and compare with what is there."""

from __future__ import annotations

import pytest
from checking import expect, reported_lines


def test_numbers_give_samples_on_the_cpu() -> None:
    expect(
        """
        import torch
        from torch import nn

        class Noisy(nn.Module):
            def forward(self, x):
                keep = torch.distributions.Bernoulli(0.5).sample(x.shape)
                return x * keep  # <-
        """,
        "DEV102",
    )


def test_a_single_sample_of_numbers_joins_anything() -> None:
    code = """
        import torch
        from torch import nn

        class Mixed(nn.Module):
            def forward(self, x, other):
                share = torch.distributions.Beta(1.0, 1.0).sample()
                return share * x + (1 - share) * other
        """
    assert reported_lines(code, "DEV102") == reported_lines(code, "DEV201") == []


def test_a_prior_that_the_forward_makes_on_the_cpu_meets_the_posterior() -> None:
    expect(
        """
        import torch
        from torch import nn
        from torch.distributions import Normal, kl_divergence

        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)

            def forward(self, x):
                mean = self.fc(x)
                prior = Normal(torch.zeros(4), 1.0)  # <-
                return kl_divergence(Normal(mean, mean.exp()), prior).sum()
        """,
        "DEV201",
    )


def test_a_prior_of_a_module_stays_where_it_was_made() -> None:
    expect(
        """
        import torch
        from torch import nn

        class Encoder(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.fc = nn.Linear(size, size)
                self.prior = torch.distributions.Normal(torch.zeros(size), torch.ones(size))  # <-

            def forward(self, x):
                z = self.fc(x)
                return self.prior.log_prob(z).sum()
        """,
        "DEV103",
    )


@pytest.mark.parametrize(
    "prior",
    ["Normal(torch.zeros_like(mean), torch.ones_like(mean))", "Normal(self.mean, self.scale)", "Normal(0.0, 1.0)"],
)
def test_parameters_that_follow_the_input_or_are_numbers_are_fine(prior: str) -> None:
    code = f"""
        import torch
        from torch import nn
        from torch.distributions import Normal, kl_divergence

        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
                self.register_buffer("mean", torch.zeros(4))
                self.register_buffer("scale", torch.ones(4))

            def forward(self, x):
                mean = self.fc(x)
                prior = {prior}
                return kl_divergence(Normal(mean, mean.exp()), prior).sum() + prior.log_prob(mean).sum()
        """
    for rule in ("DEV102", "DEV103", "DEV201"):
        assert reported_lines(code, rule) == []


def test_parameters_may_be_sent_after_a_distribution_is_made() -> None:
    code = """
        import torch
        from torch import nn

        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
                self.noise = torch.distributions.Normal(0, 1)
                self.noise.loc = self.noise.loc.cuda()
                self.noise.scale = self.noise.scale.cuda()

            def forward(self, x):
                mean = self.fc(x)
                return mean + self.noise.sample(mean.shape)
        """
    for rule in ("DEV102", "DEV103", "DEV201"):
        assert reported_lines(code, rule) == []
