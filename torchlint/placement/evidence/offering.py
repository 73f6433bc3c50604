"""Whether a file only defines what others call, and has nothing to do with data of the host."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.placement.syntax import dotted

#: Modules whose users read files, pictures, sound or tables, or are run by people.
_OF_THE_HOST = frozenset(
    "PIL cv2 skimage imageio matplotlib pandas csv json pickle h5py lmdb soundfile librosa glob argparse tqdm wandb"
    " sklearn nltk spacy datasets nibabel nilearn SimpleITK pydicom albumentations torchio"
    " torch.utils.data torchvision.datasets torchvision.transforms".split()
)
#: Words in the path of files that prepare data, or show how something is done.
_HOST_PATH = re.compile(
    r"data|prepro|transforms|augment|triples|collat|sampl|loader|example|tutorial|demo|script|tool|bench|notebook"
)


def offers_functions(module: cst.Module, path: str) -> bool:
    """Whether the functions of a file are for whoever has tensors: it runs nothing, and reads nothing.

    path: a notebook's functions are called in its own cells, by nobody else.
    """
    near = "/".join(path.lower().replace("\\", "/").split("/")[-4:])
    if near.endswith(".ipynb") or _HOST_PATH.search(near) or any(_runs(statement) for statement in module.body):
        return False
    return not any(
        name in _OF_THE_HOST or name.split(".")[0] in _OF_THE_HOST for name in _imported(module.body)
    )


def _imported(body: object) -> Iterator[str]:
    """The modules that statements outside of functions import, and what they take from one, in full."""
    for node in body:  # type: ignore[attr-defined]
        kind = type(node)
        if kind is cst.SimpleStatementLine:
            yield from _imported(node.body)
        elif kind is cst.Import:
            yield from (dotted(alias.name) or "" for alias in node.names)
        elif kind is cst.ImportFrom and node.module is not None and not node.relative:
            module = dotted(node.module) or ""
            yield module
            if not isinstance(node.names, cst.ImportStar):
                yield from (f"{module}.{dotted(alias.name)}" for alias in node.names)
        elif kind in (cst.Try, cst.If):
            yield from _imported(node.body.body)


def _runs(statement: cst.CSTNode) -> bool:
    """Whether a statement of a module does something, rather than define or import."""
    if type(statement) is cst.SimpleStatementLine:
        return any(type(s) is cst.Expr and type(s.value) is cst.Call for s in statement.body)
    return type(statement) in (cst.For, cst.While, cst.With)
