import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


class TritonModel:
    def initialize(self, name):
        self.model = AutoModelForCausalLM.from_pretrained(name)
        if torch.cuda.is_available():
            self.model = self.model.to("cuda")
        self.tokenizer = AutoTokenizer.from_pretrained(name)

    def execute(self, prompt, max_tokens):
        ids = self.tokenizer(prompt, return_tensors="pt").input_ids
        out = self.model.generate(ids, max_new_tokens=max_tokens)  # <- DEV102
        return self.tokenizer.decode(out[0])
