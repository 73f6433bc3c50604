import math
import numpy as np
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def eval_set(test_x, test_y, model, batch_size):
    y_preds = []
    sum_loss = 0.0
    model.eval()
    with torch.no_grad():
        for k in range(math.ceil(len(test_x) / batch_size)):
            part = slice(k * batch_size, (k + 1) * batch_size)
            inputs = torch.from_numpy(test_x[part].astype(np.float32)).to(device)
            targets = torch.from_numpy(test_y[part].astype(np.float32)).to(device)
            outputs = model(inputs)
            y_preds.append(outputs)
            sum_loss += model.true_loss(outputs, targets).item()
    return sum_loss, np.concatenate(y_preds, 0)  # <- DEV106
