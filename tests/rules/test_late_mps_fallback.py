"""DEV505: the fallback of MPS that is asked for after torch is there."""

from __future__ import annotations

import pytest
from checking import findings

_VARIABLE = "PYTORCH_ENABLE_MPS_FALLBACK"


@pytest.mark.parametrize(
    "setting",
    [
        f'os.environ["{_VARIABLE}"] = "1"',
        f'os.environ.setdefault("{_VARIABLE}", "1")',
        f'os.environ.update({{"{_VARIABLE}": "1"}})',
        f"os.environ.update({_VARIABLE}='1')",
    ],
)
def test_the_fallback_counts_before_torch_is_imported(setting: str) -> None:
    assert len(findings(f"import os\nimport torch\n{setting}\n", "DEV505")) == 1
    assert len(findings(f"import os\nimport torchvision\ndef main():\n    {setting}\n", "DEV505")) == 1
    assert findings(f"import os\n{setting}\nimport torch\n", "DEV505") == ()
    assert findings(f"import os, torch\n{setting.replace(_VARIABLE, 'OTHER')}\n", "DEV505") == ()
