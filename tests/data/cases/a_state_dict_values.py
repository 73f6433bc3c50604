# values of a state_dict are tensors
def to_host(model):
    state = model.state_dict()
    for key, value in state.items():
        value.cpu()  # <- DEV101
    return state
