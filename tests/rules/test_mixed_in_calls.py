"""DEV102 and DEV106 over calls: batches, models, metrics and options that functions hand to each other."""

from __future__ import annotations

import pytest
from checking import expect, findings

from torchlint.findings import Confidence

CODE = "DEV102"

EVALUATED = """
    import torch
    from torch.utils.data import DataLoader
    {imports}
    class Trainer:
        def __init__(self, net, use_gpu=True):
            self.device = torch.device("cuda:0" if use_gpu else "cpu")
            self.net = net.to(self.device)
        def fit(self, train_set, val_set):
            for x, y in DataLoader(train_set, batch_size=8):
                x, y = x.to(self.device), y.to(self.device)
                torch.nn.functional.mse_loss(self.net(x), y).backward()
            self.validate({passed})
        def validate(self, {parameter}):
            with torch.no_grad():
                for {target} in {iterated}:
                    out = self.net({given})  # <-
    """


@pytest.mark.parametrize(
    ("target", "iterated", "given"),
    [
        ("x, y", "batches", "x"),
        ("i, (x, y)", "enumerate(batches)", "x"),
        ("x, y", "tqdm(batches)", "x"),
        ("x, y", "batches", "x.float()"),
        ("batch", "batches", "batch[0]"),
    ],
)
@pytest.mark.parametrize("parameter", ["batches", "batches: DataLoader"])
def test_an_evaluation_that_forgets_the_move_is_reported_where_it_has_the_batch(
    target: str, iterated: str, given: str, parameter: str
) -> None:
    code = EVALUATED.format(
        imports="from tqdm import tqdm", passed="DataLoader(val_set, batch_size=8)", parameter=parameter,
        target=target, iterated=iterated, given=given,
    )  # fmt: skip
    if "DataLoader" in parameter and given == "batch[0]":
        pytest.skip("what an annotated loader yields is not known as a whole")
    expect(code, CODE)


def test_an_evaluation_that_moves_its_batches_is_silent() -> None:
    code = EVALUATED.format(
        imports="", passed="DataLoader(val_set, 8)", parameter="batches", target="x, y", iterated="batches",
        given="x.to(self.device)",
    )  # fmt: skip
    assert not findings(code, CODE, confidence=Confidence.POSSIBLE)


def test_a_loader_that_nobody_knows_accuses_nothing() -> None:
    code = EVALUATED.format(
        imports="from data import make_loader", passed="make_loader(val_set)", parameter="batches", target="x, y",
        iterated="batches", given="x",
    )  # fmt: skip
    assert not findings(code, CODE, confidence=Confidence.POSSIBLE)


def test_a_model_that_was_never_moved_is_reported_where_it_is_handed_on() -> None:
    expect(
        """
        import torch
        from torchvision.models import resnet18
        def evaluate(model, loader, device):
            for x, _ in loader:
                yield model(x.to(device))
        def main(loader):
            device = "cuda" if torch.cuda.is_available() else "cpu"
            net = resnet18()
            list(evaluate(net, loader, device))  # <-
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "making",
    [
        "net = resnet18().to(device)",
        "net = resnet18(); net.to(device)",
        "net = resnet18(); prepare(net)",
        "net = torch.nn.DataParallel(resnet18())",
        "net = build()",
        "device = 'cpu'; net = resnet18()",
    ],
)
def test_a_model_that_is_moved_or_may_be_is_silent(making: str) -> None:
    code = f"""
        import torch
        from torchvision.models import resnet18
        from elsewhere import prepare, build
        def evaluate(model, loader, device):
            for x, _ in loader:
                yield model(x.to(device))
        def main(loader, device):
            {making}
            list(evaluate(net, loader, device))
        """
    assert not findings(code, CODE)


def test_a_function_that_moves_the_model_it_is_given_is_not_accused() -> None:
    code = """
        import torch
        from torch import nn
        def step(model, x, device):
            model.train()
            return model(x.to(device))
        def fit(model, xs):
            device = torch.device("cuda")
            model.to(device)
            for x in xs:
                step(model, x, device)
            return model
        def main(xs):
            net = nn.Linear(2, 2)
            net = fit(net, xs)
            fit(net, xs)
        """
    assert not findings(code, CODE)


def test_a_branch_for_the_cpu_is_silent() -> None:
    code = """
        import torch
        from torch.utils.data import DataLoader
        def predict(net, images, device=None):
            net.eval()
            if device is not None:
                return net(images.to(device))
            else:
                return net(images)
        def main(net, data):
            device = torch.device("cuda")
            net = net.to(device)
            for images, _ in DataLoader(data, 4):
                predict(net, images, device)
        """
    assert not findings(code, CODE)


def test_an_argument_that_its_function_may_take_as_none_keeps_both_paths() -> None:
    code = """
        import torch
        from torch import nn
        class Cell(nn.Module):
            def __init__(self, width: int):
                super().__init__()
                self.width = width
                self.linear = nn.Linear(2 * width, width)
            def first(self, x, h):
                if h is None:
                    h = torch.zeros(x.shape[0], self.width)  # <-
                return h
            def forward(self, x: torch.Tensor, h: torch.Tensor{default}):
                h = self.first(x, h)
                return self.linear(torch.cat([x, h], dim=1))
        """
    expect(code.format(default=" = None"), "DEV201")
    assert not findings(code.format(default="").replace("# <-", ""), "DEV201")


def test_the_state_of_a_recurrent_layer_is_a_tensor() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(4, 4)
            def forward(self, x, hidden, cell):
                return self.lstm(x, (hidden, cell))
            def start(self, n):
                return torch.zeros(1, n, 4), torch.zeros(1, n, 4)  # <-
            def training_step(self, batch, index):
                hidden, cell = self.start(2)
                out, _ = self(batch[0], hidden, cell)
                return out.sum()
        """,
        "DEV201",
    )


def test_what_several_tensors_were_joined_to_is_in_one_place() -> None:
    code = """
        import torch
        def scale(x: torch.Tensor, by: torch.Tensor):
            return x * by
        def use(x, device):
            x = x.to(device)
            y = scale(x, torch.tensor(2.0))
            return y + x
        """
    assert not findings(code, CODE)


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


def test_pictures_become_tensors_of_the_host() -> None:
    code = """
        from PIL import Image
        from torchvision import transforms as T
        def main(model, path):
            model = model.cuda()
            model.eval()
            transform = T.Compose([T.Resize(8), T.ToTensor(), {last}])
            image = transform(Image.open(path)).unsqueeze(0)
            return model(image)  # <-
        """
    expect(code.format(last="T.Normalize([0.5], [0.5])"), CODE)
    assert not findings(code.format(last="T.Lambda(lambda t: t.cuda())"), CODE)


@pytest.mark.parametrize("item", ["sample, label = digits[0]", "sample = digits[0][0]"])
def test_items_of_a_data_set_are_on_the_host(item: str) -> None:
    expect(
        f"""
        import torch
        from torchvision import datasets
        from torchvision.transforms import ToTensor
        digits = datasets.MNIST("data", transform=ToTensor())
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = torch.nn.Linear(784, 10).to(device)
        {item}
        print(model(sample.flatten()))  # <-
        """,
        CODE,
    )


def test_a_device_among_a_program_s_options_is_a_device() -> None:
    expect(
        """
        import torch
        class Agent:
            def __init__(self, net, args):
                self.device = args.device
                self.net = net.to(self.device)
            def act(self, state):
                x = torch.tensor(state).unsqueeze(0)  # <-
                return self.net(x)
        """,
        CODE,
    )


def test_lengths_are_not_accused_beside_a_model_on_a_device() -> None:
    code = """
        import torch
        def predict(model, ids, device):
            model.eval()
            text = torch.LongTensor(ids).to(device)
            lengths = torch.LongTensor([len(ids)])
            return model(text, lengths)
        """
    assert not findings(code, CODE)


def test_lengths_that_every_caller_moves_are_reported_where_they_are_packed() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.GRU(4, 4)
            def forward(self, x, lengths):
                packed = nn.utils.rnn.pack_padded_sequence(x, lengths)  # <-
                return self.rnn(packed)
        def run(loader, device):
            encoder = Encoder().to(device)
            for x, lengths in loader:
                x, lengths = x.to(device), lengths.to(device)
                encoder(x, lengths)
        """,
        CODE,
    )


def test_a_global_model_that_training_moved_meets_batches_of_the_host() -> None:
    expect(
        """
        import torch
        from torch.utils.data import DataLoader
        from torchvision.models import resnet18
        loader = DataLoader(open_data())
        model = resnet18()
        def accuracy():
            model.eval()
            for images, labels in loader:
                out = model(images)  # <-
        def train(batches):
            device = torch.device("cuda")
            model.to(device)
            for x, y in batches:
                model(x.to(device)).sum().backward()
            accuracy()
        """,
        CODE,
    )


def test_a_copy_of_a_model_is_where_the_model_is() -> None:
    code = """
        import torch
        from torch.optim.swa_utils import AveragedModel
        def main(net, loader, device):
            model = torch.nn.Linear(2, 2).to(device)
            average = AveragedModel(model)
            for x, _ in loader:
                average(x.to(device))
        """
    assert not findings(code, CODE)


def test_prediction_lists_are_not_for_numpy() -> None:
    code = """
        import numpy as np
        import torch
        def predict(model, loader, device):
            model.eval()
            kept = []
            for x, _ in loader:
                kept.append(model(x.to(device)){copied})
            return np.concatenate(kept)  # <-
        """
    expect(code.format(copied=""), "DEV106")
    assert not findings(code.format(copied=".cpu().numpy()"), "DEV106")
    assert not findings(code.format(copied=".cpu()"), "DEV106")


def test_a_list_of_tensors_has_no_fix_for_numpy() -> None:
    code = """
        import numpy as np
        def join(model, x, device):
            model.to(device).eval()
            return np.array([model(x.to(device))])
        """
    assert [f.fix for f in findings(code, "DEV106")] == [None]


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


KEPT_LOADERS = """
    import torch
    class Trainer:
        def __init__(self, model, train_loader, val_loader, device):
            self.device = device
            self.model = model{model}
            self.train_loader, self.val_loader = train_loader, val_loader
        def train(self):
            for x, y in self.train_loader:
                {train}
                torch.nn.functional.mse_loss(self.model(x), y).backward()
        def validate(self):
            for x, y in self.val_loader:
                out = self.model(x)  # <-
    """


def test_a_loader_that_is_kept_is_known_by_what_other_loops_move() -> None:
    moves = "x, y = x.to(self.device), y.to(self.device)"
    expect(KEPT_LOADERS.format(model=".to(device)", train=moves), CODE)


@pytest.mark.parametrize(
    ("model", "train"),
    [("", "x, y = x.to(self.device), y.to(self.device)"), (".to(device)", "pass"), (".to(device)", "y = y.float()")],
)
def test_a_loader_that_is_kept_is_silent_where_no_loop_moves_or_the_model_is_elsewhere(model: str, train: str) -> None:
    assert not findings(KEPT_LOADERS.format(model=model, train=train), CODE)


OVERRIDDEN = """
    from transformers import AutoTokenizer
    class Pipeline:
        def __init__(self, name, device):
            self.device = device
            self.tokenizer = AutoTokenizer.from_pretrained(name)
        def encode(self, texts, device=None):
            {default}
            batch = self.tokenizer(texts, return_tensors="pt").to({target})  # <-
            return batch.input_ids.to(device)
    """


@pytest.mark.parametrize(
    "default",
    [
        "device = device or self.device",
        "device = device if device is not None else self.device",
        "if device is None: device = self.device",
    ],
)
def test_a_device_that_overrides_the_object_s_own_is_ignored_by_its_own(default: str) -> None:
    expect(OVERRIDDEN.format(default=default, target="self.device"), "DEV110")
    assert not findings(OVERRIDDEN.format(default=default, target="device"), "DEV110")
    assert not findings(OVERRIDDEN.format(default=default, target="self.text.device"), "DEV110")


def test_a_parameter_that_is_read_otherwise_says_nothing_of_the_own_device() -> None:
    code = OVERRIDDEN.format(default="print(device)", target="self.device")
    assert not findings(code, "DEV110")


@pytest.mark.parametrize("kept", ["list(parts)", "parts", "[p for p in parts]"])
@pytest.mark.parametrize("promise", ["list[nn.Module]", "Iterable[Part]"])
def test_a_list_of_modules_that_a_constructor_is_promised(kept: str, promise: str) -> None:
    code = f"""
        from collections.abc import Iterable
        import torch
        from torch import nn
        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = nn.Linear(2, 2)
        class Whole(nn.Module):
            def __init__(self, parts: {promise}):
                super().__init__()
                self.parts = {{kept}}  # <-
            def forward(self, x):
                return sum(p(x) for p in self.parts)
        """
    expect(code.format(kept=kept), "DEV104")
    assert not findings(code.format(kept=f"nn.ModuleList({kept})"), "DEV104")


def test_a_gradient_s_norm_is_where_the_training_is() -> None:
    expect(
        """
        import numpy as np
        import torch
        def check(model, limit):
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            return np.isinf(norm)  # <-
        """,
        "DEV106",
    )


@pytest.mark.parametrize(
    "device", ["*_, device = *patches.shape, patches.device", "device = where(patches)", "device = patches.device"]
)
def test_a_device_that_the_arguments_decide_accuses_no_argument(device: str) -> None:
    code = f"""
        import torch
        from elsewhere import where
        def encode(patches):
            {device}
            return patches + torch.arange(4, device=device).float()
        def main():
            return encode(torch.randn(2, 4))
        """
    assert not findings(code, CODE)


def test_what_follows_a_star_is_what_the_last_names_get() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Layer(nn.Module):
            def forward(self, x):
                *_, n, device = *x.shape, x.device
                kept = torch.zeros(n)  # <-
                return torch.ones(n, device=device) + kept
        """.replace("*_, n, device", "_, n, device"),
        "DEV201",
    )


def test_what_is_called_on_text_gives_no_tensor() -> None:
    code = """
        import numpy as np
        def compare(pipe, device):
            pipe.to(device)
            return np.array(pipe({argument})[0])
        """
    assert not findings(code.format(argument='"dog", steps=12'), "DEV106")
    assert findings(code.format(argument="x.to(device)").replace("pipe, device", "pipe, x, device"), "DEV106")


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


@pytest.mark.parametrize("function", ["squeeze", "nonzero", "shape"])
def test_functions_of_numpy_that_ask_their_argument_are_silent(function: str) -> None:
    code = f"""
        import numpy as np
        def peek(model, x, device):
            model.to(device).eval()
            return np.{function}(model(x.to(device)))
        """
    assert not findings(code, "DEV106")


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


@pytest.mark.parametrize("asked", ["isinstance(x, torch.Tensor)", "isinstance(x, Tensor)", "torch.is_tensor(x)"])
def test_a_helper_that_asks_for_tensors_leaves_those_it_gets_where_they_are(asked: str) -> None:
    code = f"""
        import torch
        from torch import Tensor
        def flat(x):
            if not {asked}:
                x = torch.tensor(x, dtype=torch.float32)
            return x.flatten()
        def join(device):
            here = flat(torch.ones(3))
            there = flat(torch.zeros(3, device=device))
            return torch.cat([here, there])
        """
    found = findings(code, CODE)
    assert [f.code for f in found] == [CODE]
    both_there = code.replace("torch.ones(3)", "torch.ones(3, device=device)")
    assert not findings(both_there, CODE)


def test_a_helper_makes_tensors_of_numbers_on_the_cpu() -> None:
    code = """
        import torch
        def flat(x):
            if not isinstance(x, torch.Tensor):
                x = torch.tensor(x, dtype=torch.float32)
            return x.flatten()
        def join(device):
            return torch.cat([flat([1.0, 2.0]), torch.zeros(3, device=device)])
        """
    assert findings(code, CODE)


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


def test_a_branch_that_is_traced_has_no_devices() -> None:
    code = """
        import torch
        from torch import nn
        class Shift(nn.Module):
            def forward(self, ids: torch.Tensor):
                if {test}:
                    return torch.cat([torch.zeros(1, 1), ids])
                return ids
        """
    assert not _placed(code.format(test="is_torch_fx_proxy(ids)"))
    assert _placed(code.format(test="ids.ndim > 1"))


def test_the_legacy_constructor_gives_a_tensor_back_as_it_is() -> None:
    code = """
        import torch
        from torch import nn
        class Scale(nn.Module):
            def forward(self, x: torch.Tensor):
                return torch.Tensor({given}) * x
        """
    assert not _placed(code.format(given="x + 1"))
    assert _placed(code.format(given="[1.0, 2.0]"))


def _placed(code: str) -> bool:
    """Whether a CPU tensor is reported, by either of the rules that may."""
    return bool(findings(code, "DEV102") or findings(code, "DEV201"))
