"""DEV101: what the fix binds, and where it is not offered."""

from __future__ import annotations

from checking import fixed, safeties

CODE = "DEV101"


def test_the_fix_binds_the_result() -> None:
    assert (
        fixed(
            """\
            import torch
            def work(device):
                x = torch.ones(3)
                x.to(device)  # keep
                return x
            """,
            CODE,
        )
        == """\
import torch
def work(device):
    x = torch.ones(3)
    x = x.to(device)  # keep
    return x
"""
    )


def test_no_fix_is_offered_where_a_name_is_not_what_holds_the_tensor() -> None:
    code = """
        import torch
        def work(model: torch.nn.Module, device):
            for p in model.parameters():
                p.to(device)
        """
    assert safeties(code, CODE) == [None]


def test_one_fix_binds_all_that_a_tuple_statement_moves() -> None:
    code = """\
        import torch
        def work(device):
            a, b = torch.ones(3), torch.ones(3)
            a.to(device), b.to(device)
            return a + b
        """
    assert "    a, b = a.to(device), b.to(device)\n" in fixed(code, CODE)
