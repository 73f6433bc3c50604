"""DEV506: the visible devices are chosen after CUDA has started."""

from __future__ import annotations

import pytest
from checking import expect

SET = 'os.environ["CUDA_VISIBLE_DEVICES"] = "1"'


@pytest.mark.parametrize(
    "start",
    [
        'device = "cuda" if torch.cuda.is_available() else "cpu"',
        "torch.cuda.get_device_name(0)",
        "x = torch.zeros(3).cuda()",
        "torch.cuda.set_device(0)",
    ],
)
@pytest.mark.parametrize("late", [SET, 'os.environ.setdefault("CUDA_VISIBLE_DEVICES", "1")'])
def test_devices_that_are_chosen_after_cuda_started_are_reported(start: str, late: str) -> None:
    expect(f"import os\nimport torch\n{start}\n{late}  # <-\n", "DEV506")
    expect(f"import os\nimport torch\n{start}\ndef main():\n    {late}  # <-\n", "DEV506")
    expect(f"import os\nimport torch\ndef main():\n    {start}\n    {late}  # <-\n", "DEV506")


@pytest.mark.parametrize(
    "code",
    [
        f"import os\nimport torch\n{SET}\nx = torch.zeros(3).cuda()\n",
        f"import os\nimport torch\ncount = torch.cuda.device_count()\n{SET}\n",
        f"import os\nimport torch\ndef first():\n    torch.cuda.is_available()\ndef second():\n    {SET}\n",
        f"import os\nimport torch\ndef setup():\n    {SET}\nsetup()\nready = torch.cuda.is_available()\n",
        f"import os\nimport subprocess\nimport torch\nready = torch.cuda.is_available()\n{SET}\n",
        "import os\nimport torch\nready = torch.cuda.is_available()\nos.environ['OMP_NUM_THREADS'] = '1'\n",
        f"import os\nimport torch\nif flag:\n    x = torch.zeros(3).cuda()\n{SET}\n",
    ],
)
def test_devices_that_are_chosen_in_time_or_for_others_are_silent(code: str) -> None:
    expect(code, "DEV506")


@pytest.mark.parametrize("chosen, marked", [("1", True), ("0,1", False), ("3", True), ("-1", False)])
@pytest.mark.parametrize("use", ['torch.device("cuda:1")', "torch.zeros(3).cuda(1)", 'torch.zeros(3, device="cuda:1")'])
def test_a_number_past_the_visible_devices_is_reported(chosen: str, marked: bool, use: str) -> None:
    mark = "  # <-" if marked else ""
    code = f'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "{chosen}"\nimport torch\nmade = {use}{mark}\n'
    expect(code, "DEV117")


@pytest.mark.parametrize("chosen", ["if flag:\n    {set}", "{set}\n{set}", "os.environ['CUDA_VISIBLE_DEVICES'] = flag"])
def test_devices_that_are_not_chosen_once_and_for_all_are_silent(chosen: str) -> None:
    code = f"import os\n{chosen.format(set=SET)}\nimport torch\nmade = torch.device('cuda:1')\n"
    expect(code, "DEV117")
