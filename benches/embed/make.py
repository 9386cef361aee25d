#!/usr/bin/env python3
"""Write an embedder of the shape of bge-small with random weights, for pelton and for ONNX Runtime.

FOLDER gets a Hugging Face directory (config.json, model.safetensors, a WordPiece vocabulary) and the
same weights as model.onnx, whose inputs are token ids [texts, length] and whose output is the mean
of the last hidden states [texts, hidden], normalized.

usage: make.py FOLDER
needs: pip install torch transformers onnx onnxscript
"""
import json
import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

VOCAB = 30522


class Embedder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        # all texts have the same length, so that no mask is needed
        hidden = self.model(input_ids=input_ids).last_hidden_state
        return torch.nn.functional.normalize(hidden.mean(1), dim=-1)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=384, num_hidden_layers=12, num_attention_heads=12,
        intermediate_size=1536, max_position_embeddings=512, attn_implementation="eager")
    model = BertModel(config, add_pooling_layer=False).eval()
    model.save_pretrained(folder)
    # single characters and words that occur in no text
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    words += [f"word{i}" for i in range(VOCAB - len(words))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    vocab = {word: i for i, word in enumerate(words)}
    special = [{"id": i, "content": words[i], "special": True, "single_word": False,
                "lstrip": False, "rstrip": False, "normalized": False} for i in range(5)]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                     {"Sequence": {"id": "A", "type_id": 0}},
                     {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 1}},
                     {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {w: {"id": w, "ids": [vocab[w]], "tokens": [w]}
                               for w in ("[CLS]", "[SEP]")}},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "BertTokenizer", "cls_token": "[CLS]", "sep_token": "[SEP]",
        "unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]",
        "do_lower_case": True}))
    ids = torch.randint(5, VOCAB, (2, 128))
    torch.onnx.export(
        Embedder(model), (ids,), folder / "model.onnx", input_names=["input_ids"],
        output_names=["embedding"], dynamic_axes={"input_ids": {0: "texts", 1: "length"}},
        dynamo=False)
    print(folder)


if __name__ == "__main__":
    main()
