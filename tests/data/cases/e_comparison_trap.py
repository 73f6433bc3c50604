# a literal that is compared
def is_fast(device):
    return device.type == "cuda" or str(device).startswith("cuda")
