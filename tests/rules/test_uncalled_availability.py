"""DEV109: questions for a device that are not asked, and the fix that asks them."""

from __future__ import annotations

import pytest
from checking import findings, fixed


@pytest.mark.parametrize(
    "code",
    [
        "device = 'cuda' if torch.cuda.is_available else 'cpu'",
        "if torch.cuda.is_available:\n    pass",
        "if not torch.cuda.is_available:\n    pass",
        "use = flag and torch.cuda.is_available",
        "if flag or torch.backends.mps.is_available:\n    pass",
        "while torch.cuda.is_available:\n    pass",
        "assert torch.cuda.is_available",
    ],
)
def test_an_uncalled_question_is_reported_and_called(code: str) -> None:
    code = "import torch\nflag = True\n" + code + "\n"
    assert len(findings(code, "DEV109")) == 1
    assert findings(fixed(code, "DEV109"), "DEV109") == ()


@pytest.mark.parametrize(
    "code",
    [
        "f = torch.cuda.is_available",
        "call(torch.cuda.is_available)",
        "if torch.cuda.is_available():\n    pass",
    ],
)
def test_a_function_that_is_passed_on_or_called_is_silent(code: str) -> None:
    assert findings("import torch\n" + code + "\n", "DEV109") == ()


def test_a_message_quotes_code_of_several_lines_on_one() -> None:
    code = """
        import torch.distributed as dist
        assert (
            dist.is_initialized
        ), "call init_process_group first"
    """
    (finding,) = findings(code, "DEV109")
    assert finding.message == "`(dist.is_initialized)` is not called, and a function is always true"
    assert ")()," in fixed(code, "DEV109")
