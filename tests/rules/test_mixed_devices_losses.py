"""DEV102: losses, their weights and targets, and metrics with states."""

from __future__ import annotations

import pytest
from checking import expect, findings

CODE = "DEV102"


@pytest.mark.parametrize("name", ["ComputeLoss", "FocalLoss", "SetCriterion", "LossComputation"])
def test_a_class_that_computes_a_loss_gets_what_a_model_gave(name: str) -> None:
    expect(
        f"""
        import torch
        class {name}:
            def __call__(self, outputs, labels):
                target = torch.from_numpy(labels)  # <-
                scale = torch.ones(3, device=outputs.device)
                return torch.nn.functional.l1_loss(outputs * scale, target)
        """,
        CODE,
    )


@pytest.mark.parametrize("how", ["nn.CrossEntropyLoss(weight=w)", "nn.CrossEntropyLoss(w)", "nn.BCEWithLogitsLoss(pos_weight=w)"])
def test_the_weight_of_a_loss_stays_where_it_was_made(how: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        def train(model, loader, optimizer, device):
            w = torch.tensor([1.0, 2.0])
            criterion = {how}
            model.to(device)
            for x, y in loader:
                loss = criterion(model(x.to(device)), y.to(device))  # <-
                loss.backward()
                optimizer.step()
        """,
        CODE,
    )
    expect(
        f"""
        import torch
        from torch import nn
        def train(model, loader, optimizer, device):
            w = torch.tensor([1.0, 2.0])
            criterion = {how}.to(device)
            model.to(device)
            for x, y in loader:
                loss = criterion(model(x.to(device)), y.to(device))
                loss.backward()
                optimizer.step()
        """,
        CODE,
    )


WEIGHED = """
    import torch
    from torch import nn
    def train(model, loader, counts, device):
        criterion = nn.CrossEntropyLoss(weight=counts.sum() / counts)
        {moved}
        for x, y in loader:
            criterion(model(x.to(device)), y.to(device)).backward()  # <-
    """


def test_weights_that_stay_with_the_caller_of_a_function_that_places_everything_else() -> None:
    expect(WEIGHED.format(moved="model.to(device)"), CODE)


@pytest.mark.parametrize("moved", ["pass", "model.to(device); criterion.to(device)", "model.to(device); counts = counts"])
def test_weights_are_silent_where_the_caller_places_or_they_are_moved(moved: str) -> None:
    code = WEIGHED.format(moved=moved).replace("weight=counts.sum() / counts", "weight=counts.to(device)")
    assert not findings(code, CODE)
    if "counts" not in moved:
        assert not findings(WEIGHED.format(moved=moved), CODE)


@pytest.mark.parametrize("metric", ["Accuracy(task='binary')", "classification.MulticlassF1Score(num_classes=3)"])
@pytest.mark.parametrize("use", ["metric({})", "metric.update({})"])
def test_a_metric_with_states_has_to_be_moved(metric: str, use: str) -> None:
    code = f"""
        import torch
        from torchmetrics import Accuracy, classification
        def score(model, loader, device):
            model.to(device).eval()
            metric = {metric}{{moved}}
            for x, y in loader:
                guess = torch.softmax(model(x.to(device)), 1)
                {use.format("guess, y.to(device)")}  # <-
        """
    expect(code.format(moved=""), CODE)
    assert not findings(code.format(moved=".to(device)"), CODE)


@pytest.mark.parametrize("metric", ["MeanMetric()", "AUROC(task='binary')", "MetricCollection([])"])
def test_metrics_that_keep_lists_or_convert_are_silent(metric: str) -> None:
    code = f"""
        import torch
        from torchmetrics import AUROC, MeanMetric, MetricCollection
        def score(model, loader, device):
            metric = {metric}
            for x, y in loader:
                metric.update(model(x.to(device)).sum(), y.to(device))
        """
    assert not findings(code, CODE)


@pytest.mark.parametrize(
    "compared",
    ["(guess == labels).sum()", "guess.eq(labels).sum()", "(out - labels).sum()"],
)
def test_labels_of_a_batch_meet_what_a_model_gave(compared: str) -> None:
    code = f"""
        import torch
        from torch.utils.data import DataLoader
        def score(model, data, device):
            model.to(device)
            for images, labels in DataLoader(data, 4):
                {{labels}}
                out = model(images.to(device))
                guess = out.argmax(dim=1)
                print({compared})  # <-
        """
    expect(code.format(labels="pass"), CODE)
    assert not findings(code.format(labels="labels = labels.to(device)"), CODE)


def test_what_backward_runs_on_was_computed_from_a_prediction_and_a_target() -> None:
    expect(
        """
        def train(model, loader, criterion, optimizer, scaler, device):
            model.to(device)
            for x, y in loader:
                x = x.to(device)
                out = model(x)
                loss = criterion(out, y)  # <-
                scaler.scale(loss).backward()
                optimizer.step()
        """,
        CODE,
    )


def test_a_loss_that_takes_one_batch_may_move_it_itself() -> None:
    code = """
        def train(model, loader, optimizer, device):
            model.to(device)
            for batch in loader:
                loss = model(batch)
                loss.backward()
                optimizer.step()
        """
    assert not findings(code, CODE)


def test_a_part_of_a_batch_that_a_tensor_is_compared_with_is_no_number() -> None:
    expect(
        """
        def test(model, loader, device):
            model = model.to(device)
            hits = 0
            for data, target in loader:
                output = model(data.to(device))
                pred = output.argmax(dim=1)
                hits += pred.eq(target).sum().item()  # <-
            return hits
        """,
        CODE,
    )
