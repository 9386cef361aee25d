"""The model: Idefics3 of transformers, with its names of tensors, for one tile a picture.

A SigLIP tower, a fold of 2 by 2 patches, one matrix, and a Llama.  A reader runs it with
`Idefics3ForConditionalGeneration`; `verify.py` compares the two.
"""

import math

import torch
from data import OTHER
from pictures import TILE
from torch import nn
from torch.nn import functional
from tokens import CONTEXT, IMAGE_TOKENS

PATCH, FOLD = 8, 2
SIDE = TILE // PATCH
TOWER = dict(width=160, layers=5, heads=5, feed_forward=640)
TEXT = dict(width=192, layers=5, heads=6, kv_heads=2, feed_forward=512)
HEAD = 32
THETA = 1e4
TOWER_EPSILON, TEXT_EPSILON = 1e-6, 1e-5


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads, output, bias, causal):
        super().__init__()
        self.heads, self.kv_heads, self.causal = heads, kv_heads, causal
        self.q_proj = nn.Linear(width, heads * HEAD, bias)
        self.k_proj = nn.Linear(width, kv_heads * HEAD, bias)
        self.v_proj = nn.Linear(width, kv_heads * HEAD, bias)
        setattr(self, output, nn.Linear(heads * HEAD, width, bias))
        self.output = output

    def forward(self, x, rope=None):
        def split(y, heads):
            return y.unflatten(-1, (heads, HEAD)).transpose(1, 2)

        q, k = split(self.q_proj(x), self.heads), split(self.k_proj(x), self.kv_heads)
        v = split(self.v_proj(x), self.kv_heads)
        if rope is not None:
            q, k = (rotated(y, *rope).to(v.dtype) for y in (q, k))
        if self.heads != self.kv_heads:
            k, v = (y.repeat_interleave(self.heads // self.kv_heads, 1) for y in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return getattr(self, self.output)(y.transpose(1, 2).flatten(2))


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class TowerMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(TOWER["width"], TOWER["feed_forward"])
        self.fc2 = nn.Linear(TOWER["feed_forward"], TOWER["width"])

    def forward(self, x):
        return self.fc2(functional.gelu(self.fc1(x), approximate="tanh"))


class TowerLayer(nn.Module):
    def __init__(self):
        super().__init__()
        width, heads = TOWER["width"], TOWER["heads"]
        self.self_attn = Attention(width, heads, heads, "out_proj", bias=True, causal=False)
        self.layer_norm1 = nn.LayerNorm(width, TOWER_EPSILON)
        self.mlp = TowerMlp()
        self.layer_norm2 = nn.LayerNorm(width, TOWER_EPSILON)

    def forward(self, x):
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.Module()
        self.embeddings.patch_embedding = nn.Conv2d(3, TOWER["width"], PATCH, PATCH)
        self.embeddings.position_embedding = nn.Embedding(SIDE * SIDE, TOWER["width"])
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList(TowerLayer() for _ in range(TOWER["layers"]))
        self.post_layernorm = nn.LayerNorm(TOWER["width"], TOWER_EPSILON)

    def forward(self, pixels):
        x = pixels.permute(0, 3, 1, 2).float() / 255
        x = self.embeddings.patch_embedding((x - 0.5) / 0.5).flatten(2).transpose(1, 2)
        x = x + self.embeddings.position_embedding.weight
        for layer in self.encoder.layers:
            x = layer(x)
        return self.post_layernorm(x)


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(TEXT["width"]))

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + TEXT_EPSILON) * self.weight


class TextMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(TEXT["width"], TEXT["feed_forward"], False)
        self.up_proj = nn.Linear(TEXT["width"], TEXT["feed_forward"], False)
        self.down_proj = nn.Linear(TEXT["feed_forward"], TEXT["width"], False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class TextLayer(nn.Module):
    def __init__(self):
        super().__init__()
        shape = TEXT["width"], TEXT["heads"], TEXT["kv_heads"]
        self.self_attn = Attention(*shape, "o_proj", bias=False, causal=True)
        self.mlp = TextMlp()
        self.input_layernorm = RmsNorm()
        self.post_attention_layernorm = RmsNorm()

    def forward(self, x, rope):
        x = x + self.self_attn(self.input_layernorm(x), rope)
        return x + self.mlp(self.post_attention_layernorm(x))


class Text(nn.Module):
    def __init__(self, entries):
        super().__init__()
        self.embed_tokens = nn.Embedding(entries, TEXT["width"])
        self.layers = nn.ModuleList(TextLayer() for _ in range(TEXT["layers"]))
        self.norm = RmsNorm()


class Seer(nn.Module):
    def __init__(self, entries, image):
        super().__init__()
        self.image = image
        self.vision_model = Tower()
        self.connector = nn.Module()
        self.connector.modality_projection = nn.Module()
        folded = TOWER["width"] * FOLD * FOLD
        self.connector.modality_projection.proj = nn.Linear(folded, TEXT["width"], bias=False)
        self.text_model = Text(entries)
        deep = 2 * (TOWER["layers"] + TEXT["layers"])
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                last = name.endswith(("out_proj.weight", "o_proj.weight", "fc2.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(deep) if last else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        nn.init.normal_(self.connector.modality_projection.proj.weight, std=1 / math.sqrt(folded) * 0.1)

    def features(self, pixels):
        """IMAGE_TOKENS vectors a picture: neighbours beside each other, then the matrix."""
        x = self.vision_model(pixels)
        cells = SIDE // FOLD
        x = x.unflatten(1, (cells, FOLD, cells, FOLD)).transpose(2, 3)
        x = x.reshape(x.shape[0], IMAGE_TOKENS, -1)
        return self.connector.modality_projection.proj(x)

    def forward(self, pixels, ids):
        """Logits of the tokens after each of `ids`, of the shape [picture, row, token]."""
        count, rows, length = ids.shape
        seen = self.features(pixels).float()
        swapped = seen.unflatten(0, (count // 2, 2)).flip(1).flatten(0, 1)
        own, other = ids == self.image, ids == OTHER
        x = self.text_model.embed_tokens(torch.where(other, self.image, ids))
        for there, vectors in [(own, seen), (other, swapped)]:
            at = (there.cumsum(-1) - 1).clamp(0, IMAGE_TOKENS - 1)
            picture = torch.arange(count, device=ids.device)[:, None, None]
            x = torch.where(there[..., None], vectors[picture, at], x)
        x = x.flatten(0, 1)
        angles = torch.arange(length, device=ids.device)[:, None] * THETA ** (
            torch.arange(0, HEAD, 2, device=ids.device) / -HEAD
        )
        angles = torch.cat([angles, angles], -1)
        rope = angles.cos(), angles.sin()
        for layer in self.text_model.layers:
            x = layer(x, rope)
        x = self.text_model.norm(x)
        return functional.linear(x, self.text_model.embed_tokens.weight).unflatten(0, (count, rows))

    def named_for_transformers(self):
        return {f"model.{name}": weight for name, weight in self.state_dict().items()}


def configuration(entries, identity):
    """config.json of transformers, of a tokenizer's `entries` and identities of its tokens."""
    return dict(
        architectures=["Idefics3ForConditionalGeneration"],
        model_type="idefics3",
        image_token_id=identity["<image>"],
        scale_factor=FOLD,
        pad_token_id=identity["<end_of_utterance>"],
        tie_word_embeddings=True,
        use_cache=True,
        text_config=dict(
            model_type="llama",
            architectures=["LlamaForCausalLM"],
            vocab_size=entries,
            hidden_size=TEXT["width"],
            intermediate_size=TEXT["feed_forward"],
            num_hidden_layers=TEXT["layers"],
            num_attention_heads=TEXT["heads"],
            num_key_value_heads=TEXT["kv_heads"],
            head_dim=HEAD,
            hidden_act="silu",
            max_position_embeddings=CONTEXT,
            rms_norm_eps=TEXT_EPSILON,
            rope_parameters=dict(rope_type="default", rope_theta=THETA),
            tie_word_embeddings=True,
            bos_token_id=identity["<|begin|>"],
            eos_token_id=identity["<end_of_utterance>"],
            pad_token_id=identity["<end_of_utterance>"],
        ),
        vision_config=dict(
            model_type="idefics3_vision",
            hidden_size=TOWER["width"],
            intermediate_size=TOWER["feed_forward"],
            num_hidden_layers=TOWER["layers"],
            num_attention_heads=TOWER["heads"],
            num_channels=3,
            image_size=TILE,
            patch_size=PATCH,
            hidden_act="gelu_pytorch_tanh",
            layer_norm_eps=TOWER_EPSILON,
        ),
    )
