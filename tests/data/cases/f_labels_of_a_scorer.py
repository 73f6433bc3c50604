import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer


class Scorer:
    def __init__(self, name):
        self.tokenizer = AutoTokenizer.from_pretrained(name)
        self.model = AutoModelForMaskedLM.from_pretrained(name)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model.to(self.device)
        self.model.eval()
        self.loss_fn = torch.nn.CrossEntropyLoss(reduction="none")

    def perplexity(self, texts):
        batch = self.tokenizer(texts, return_tensors="pt", padding=True)
        label = batch["input_ids"].clone()
        with torch.no_grad():
            output = self.model(**{k: v.to(self.device) for k, v in batch.items()})
        logits = output["logits"]
        loss = self.loss_fn(logits.view(-1, logits.shape[-1]), label.view(-1))  # <- DEV102
        return loss.view(len(texts), -1).mean(-1).exp().tolist()
