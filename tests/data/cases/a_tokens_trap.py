# what a tokenizer gives moves in place
from transformers import AutoModel, AutoTokenizer


def embed(texts, device):
    tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
    model = AutoModel.from_pretrained("bert-base-uncased").to(device)
    tokens = tokenizer(texts, return_tensors="pt")
    tokens.to(device)
    return model(**tokens)
