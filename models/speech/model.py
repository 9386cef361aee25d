"""Whisper's architecture in OpenAI's names, and a head for connectionist temporal classification
(CTC) on the encoder, which only training has."""

import dataclasses
import math

import torch
import tokens
from torch import nn
from torch.nn import functional

MELS = 80
FRAMES = 3000
POSITIONS = 1500
CONTEXT = 448


@dataclasses.dataclass(frozen=True)
class Shape:
    width: int = 256
    heads: int = 4
    encoder_layers: int = 4
    decoder_layers: int = 2


def sinusoids(positions, width):
    rate = math.log(10000) / (width // 2 - 1)
    angles = torch.arange(positions)[:, None] * torch.exp(-rate * torch.arange(width // 2))[None]
    return torch.cat([angles.sin(), angles.cos()], 1)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def project(self, x, *parts):
        """Queries, keys or values of `x` by one product."""
        weight = torch.cat([part.weight for part in parts])
        none = torch.zeros_like(self.value.bias)
        bias = torch.cat([none if part.bias is None else part.bias for part in parts])
        rows = functional.linear(x, weight, bias).chunk(len(parts), -1)
        return [self.split(row) for row in rows]

    def attend(self, query, key, value, causal=False):
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x, causal):
        return self.attend(*self.project(x, self.query, self.key, self.value), causal)

    def cross(self, x, states):
        (query,) = self.project(x, self.query)
        return self.attend(query, *self.project(states, self.key, self.value))


class Block(nn.Module):
    def __init__(self, width, heads, cross, dropout):
        super().__init__()
        self.attn = Attention(width, heads)
        self.attn_ln = nn.LayerNorm(width)
        if cross:
            self.cross_attn = Attention(width, heads)
            self.cross_attn_ln = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.mlp_ln = nn.LayerNorm(width)
        self.dropout = dropout

    def drop(self, x):
        return functional.dropout(x, self.dropout, self.training)

    def forward(self, x, states=None):
        x = x + self.drop(self.attn(self.attn_ln(x), causal=states is not None)).to(x.dtype)
        if states is not None:
            x = x + self.drop(self.cross_attn.cross(self.cross_attn_ln(x), states)).to(x.dtype)
        return x + self.drop(self.mlp(self.mlp_ln(x))).to(x.dtype)


class Encoder(nn.Module):
    def __init__(self, shape, dropout):
        super().__init__()
        self.conv1 = nn.Conv1d(MELS, shape.width, 3, padding=1)
        self.conv2 = nn.Conv1d(shape.width, shape.width, 3, stride=2, padding=1)
        self.register_buffer(
            "positional_embedding", sinusoids(POSITIONS, shape.width), persistent=False
        )
        self.blocks = nn.ModuleList(
            Block(shape.width, shape.heads, False, dropout) for _ in range(shape.encoder_layers)
        )
        self.ln_post = nn.LayerNorm(shape.width)

    def stem(self, mel):
        x = functional.gelu(self.conv2(functional.gelu(self.conv1(mel)))).transpose(1, 2)
        return (x + self.positional_embedding[: x.shape[1]]).to(x.dtype)

    def forward(self, mel):
        x = self.stem(mel)
        for block in self.blocks:
            x = block(x)
        return self.ln_post(x)


class Decoder(nn.Module):
    def __init__(self, shape, dropout):
        super().__init__()
        self.token_embedding = nn.Embedding(tokens.TOKENS, shape.width)
        self.positional_embedding = nn.Parameter(torch.empty(CONTEXT, shape.width))
        self.blocks = nn.ModuleList(
            Block(shape.width, shape.heads, True, dropout) for _ in range(shape.decoder_layers)
        )
        self.ln = nn.LayerNorm(shape.width)

    def forward(self, ids, states):
        x = self.token_embedding(ids) + self.positional_embedding[: ids.shape[1]]
        x = x.to(states.dtype)
        for block in self.blocks:
            x = block(x, states)
        return self.ln(x)


class Whisper(nn.Module):
    def __init__(self, shape, dropout=0.0):
        super().__init__()
        self.shape = shape
        self.encoder = Encoder(shape, dropout)
        self.decoder = Decoder(shape, dropout)
        self.ctc = nn.Linear(shape.width, tokens.TEXT_TOKENS + 1)  # the last one is the blank
        self.reset()

    def reset(self):
        nn.init.normal_(self.decoder.token_embedding.weight, std=0.04)
        nn.init.normal_(self.decoder.positional_embedding, std=0.02)
        for name, part in self.named_modules():
            if isinstance(part, nn.Linear):
                layers = self.shape.encoder_layers + self.shape.decoder_layers
                last = name.endswith((".out", "mlp.2"))
                scale = (2 * layers) ** -0.5 if last else 1.0
                nn.init.normal_(part.weight, std=0.7 * scale * part.in_features**-0.5)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)

    def logits(self, ids, states):
        return self.decoder(ids, states) @ self.decoder.token_embedding.weight.T

    def losses(self, mel, ids, targets, text, lengths, whole):
        """Cross entropy of the decoder's targets and the CTC loss of complete texts.

        `text` has the tokens of a window without times, `lengths` their counts, on the CPU.
        `whole` is zero for windows that cut a sentence.
        """
        states = self.encoder(mel)
        logits = self.logits(ids, states).float()
        entropy = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        pooled = functional.avg_pool1d(states.transpose(1, 2), 2).transpose(1, 2)
        scores = self.ctc(pooled).float().log_softmax(-1).transpose(0, 1)
        steps = torch.full_like(lengths, scores.shape[0])
        ctc = functional.ctc_loss(
            scores, text, steps, lengths, tokens.TEXT_TOKENS, reduction="none", zero_infinity=True
        )
        counts = lengths.to(whole.device, non_blocking=True) * whole
        ctc = (ctc * whole).sum() / counts.sum().clamp(min=1)
        return entropy, ctc

    def compile_blocks(self):
        """Compiles one block of each kind; equal blocks share the code."""
        for block in [*self.encoder.blocks, *self.decoder.blocks]:
            block.compile(dynamic=False)

    def recognized(self):
        """The weights of recognition, by OpenAI's names."""
        return {
            name: weight for name, weight in self.state_dict().items() if not name.startswith("ctc.")
        }
