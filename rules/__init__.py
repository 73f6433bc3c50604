"""The rules of torchlint, one file each; `torchlint.rule.find_rules` finds them."""
