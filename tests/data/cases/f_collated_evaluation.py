import torch
from torch.utils.data import DataLoader
from transformers import AdamW, AutoModelForSequenceClassification, DataCollatorWithPadding


def finetune(train_set, eval_set, tokenizer, epochs=3):
    collate = DataCollatorWithPadding(tokenizer)
    train_loader = DataLoader(train_set, shuffle=True, batch_size=8, collate_fn=collate)
    eval_loader = DataLoader(eval_set, batch_size=8, collate_fn=collate)
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased", num_labels=2)
    optimizer = AdamW(model.parameters(), lr=5e-5)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    model.to(device)
    for epoch in range(epochs):
        model.train()
        for batch in train_loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        for batch in eval_loader:
            with torch.no_grad():
                outputs = model(**batch)  # <- DEV102
            print(outputs.logits.argmax(-1))
