"""DEV102 over calls: batches, models and options that functions hand to each other."""

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
