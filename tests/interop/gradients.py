#!/usr/bin/env python3
"""Gradients of the small checkpoints of tests/data/families.h by transformers, in F64 on the CPU.

    gradients.py MAKE_FAMILY [FAMILY ...] > tests/golden/gradients.txt

MAKE_FAMILY is the program of that name from a build. Needs torch, transformers and accelerate. The
file that comes out is committed.

Tokens: two sequences of 20, both from position 0 on: token t of sequence s is family_token(14 + 70 s
+ t). Loss: the mean of -ln softmax(logits)[next token] over the first 19 rows of both. Attention is
"eager", experts run one by one, nothing is dropped out.

A line is "FAMILY LEAF COUNT NORM DOT": the number of elements of a leaf, the L2 norm of the gradient
of the loss with respect to it, and the product of that gradient with signs s(i), where i counts
elements row by row:

    h = i * 2654435761 mod 2^32,  h = h xor (h >> 16),  h = h * 2246822519 mod 2^32
    s(i) = -1 if h >= 2^31, else 1

Leaves, in the names and orders of runtime/arch.h:

    loss            the loss itself: COUNT is 1, NORM and DOT are both its value
    input.B         what block B reads, [40, hidden]; B = number of blocks: what the last norm reads
    NAME            weights [n, k] of a linear, a norm, the embedding, positions, the head
    NAME.bias       its bias
    EMBEDDING+HEAD  where they are one tensor: the sum, beside what each of the two gets alone

A tensor that holds several linears is taken apart (NAME.q and so on), and experts stand alone: one
that no token runs has zeros. So has the key bias of families without rotary positions, which adds the
same to all scores of a row; what torch leaves there (1e-17) is printed as 0. Where a family adds one
to the weights of its norms, the gradient is the same for both.

BitNet: transformers rounds the inputs of linears to int8 and hands gradients back unchanged, through
rounding, clamping and the scale (straight-through); likewise from ternary weights to the master
weights that they are made of. The gradient of a weight is with respect to what is multiplied with,
ternary number times scale: dy^T x with the rounded x, which is that of a master weight too.

Every DOT is held against the central difference of the loss along the signs, with rounding held where
it is. A model is refused where last bits would decide: a router, a rounded input or a ReLU close to
where it jumps."""

import contextlib
import functools
import math
import sys

import families
import torch
import transformers
from transformers.integrations import bitnet

ActQuant, WeightQuant = bitnet.ActQuant, bitnet.WeightQuant
STARTS, LENGTH = (14, 84), 20
STEP = 1e-6  # of central differences
LAST_NORMS = ("norm", "ln_f", "final_layer_norm", "final_layernorm")
PARTS = ("gate_proj", "up_proj", "down_proj")
EXPERTS = {
    "mixtral": ("block_sparse_moe", "w1", "w3", "w2"),
    "llama4_text": ("feed_forward", *PARTS),
}
OTHER_EXPERTS = ("mlp", *PARTS)


@contextlib.contextmanager
def in_double():
    """transformers computes norms, softmax, angles and routers in torch.float32 whatever the type of
    the model: here that name means F64."""
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved


def signs(shape):
    h = torch.arange(math.prod(shape)) * 2654435761 & 0xFFFFFFFF
    h = (h ^ (h >> 16)) * 2246822519 & 0xFFFFFFFF
    return torch.where(h >= 1 << 31, -1.0, 1.0).double().view(shape)


class Rounding:
    """Stands for a rounding function of bitnet.py: keeps what rounding adds, and later can add the
    same to other values. `least`: how far a value was from where its code changes, in codes."""

    def __init__(self, function, top):
        self.function, self.top = function, top
        self.added, self.held, self.least = [], None, 0.5

    def apply(self, x):
        if self.held:
            return x + next(self.held)
        y = self.function.apply(x)
        with torch.no_grad():
            self.added.append(y - x)
            size = x.abs().mean() if self.top == 1 else x.abs().amax(-1, keepdim=True) / self.top
            code = (x / size).abs()
            self.least = min(self.least, (code % 1 - 0.5).abs()[code < self.top].min().item())
        return y

    def hold(self, held):
        self.held = iter(self.added) if held else None


class Model:
    """A checkpoint in F64 with its leaves."""

    def __init__(self, directory):
        self.directory = directory
        self.model = families.load(directory, torch.float64)
        self.model.set_experts_implementation("eager")
        self.config = self.model.config.get_text_config()
        self.margins = families.Margins()
        self.margins.watch(self.model)
        self.least_relu = 1.0
        bitnet.ActQuant = self.rounding = Rounding(ActQuant, 127)
        bitnet.WeightQuant = self.ternary = Rounding(WeightQuant, 1)
        self.embedding, head = self.model.get_input_embeddings().weight, self.model.lm_head
        self.tied = head.weight is self.embedding
        if self.tied:
            head.weight = torch.nn.Parameter(self.embedding.detach().clone())
        for name, module in list(self.model.named_modules()):
            if hasattr(module, "weight_scale"):  # weights as multiplied with
                module.weight.data.mul_(module.weight_scale)
                module.weight_scale.fill_(1)
            if name.endswith("rotary_emb"):
                with in_double():
                    self.model.set_submodule(name, type(module)(self.config))
            if isinstance(module, torch.nn.ReLU):
                module.register_forward_pre_hook(self.see_relu)
        self.model.requires_grad_(True)
        self.inputs, self.moved = [], {}
        base = self.model.base_model
        base = getattr(base, "decoder", getattr(base, "language_model", base))
        base = getattr(base, "model", base)
        readers = list(base.h if hasattr(base, "h") else base.layers)
        readers += [getattr(base, name) for name in LAST_NORMS if hasattr(base, name)]
        for module in readers:
            module.register_forward_pre_hook(self.see_input)
        tokens = [[families.token(s + t) for t in range(LENGTH)] for s in STARTS]
        self.tokens = torch.tensor(tokens)

    def see_relu(self, module, inputs):
        self.least_relu = min(self.least_relu, inputs[0].detach().abs().min().item())

    def see_input(self, module, inputs):
        x = inputs[0] + self.moved.get(len(self.inputs), 0)
        if x.requires_grad:
            x.retain_grad()
        self.inputs.append(x)
        return (x, *inputs[1:])

    def loss(self, held=False):
        """The loss; `held`: rounding adds what it added the first time."""
        self.inputs.clear()
        self.rounding.hold(held), self.ternary.hold(held)
        with in_double():
            logits = self.model(self.tokens, use_cache=False).logits
            return torch.nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1), self.tokens[:, 1:].flatten()
            )

    def check(self):
        self.margins.check(self.directory)
        if self.rounding.least < 8e-5 or self.least_relu < 1e-4:
            raise SystemExit(
                f"{self.directory}: a rounded input is {self.rounding.least:.2g}, a ReLU"
                f" {self.least_relu:.2g} away from where it jumps"
            )

    def parts(self, name, t):
        """(name, view) of the leaves that a tensor of transformers holds, linears as [n, k]."""
        heads, bias = self.config.num_attention_heads, ".bias" * name.endswith(".bias")
        name = name.removesuffix(".weight").removesuffix(".bias").replace(".language_model", "")
        path, last = name.rpartition(".")[::2]
        mlp, gate, up, down = EXPERTS.get(self.config.model_type, OTHER_EXPERTS)
        block = path.removesuffix(".experts").removesuffix(".mlp").removesuffix(".feed_forward")
        if last in ("c_attn", "c_proj", "c_fc") and not bias:
            t = t.t()
        if path.endswith(".experts"):
            names = (gate, up) if last == "gate_up_proj" else (down,)
            turned = self.config.model_type == "llama4_text"  # inputs stand in rows
            for e, expert in enumerate(t.transpose(1, 2) if turned else t):
                for part, view in zip(names, expert.chunk(len(names))):
                    yield f"{block}.{mlp}.experts.{e}.{part}", view
        elif last in ("c_attn", "qkv_proj"):
            kv = (len(t) - self.config.hidden_size) // 2
            for part, view in zip("qkv", t.split([self.config.hidden_size, kv, kv])):
                yield f"{name}.{part}{bias}", view
        elif last == "query_key_value":
            for j, part in enumerate("qkv"):
                yield f"{name}.{part}{bias}", t.view(heads, 3, -1, *t.shape[1:])[:, j]
        elif last == "gate_up_proj":
            for part, view in zip(("gate", "up"), t.chunk(2)):
                yield f"{name}.{part}", view
        elif last == "gate" and path.endswith(".mlp"):
            yield f"{block}.{mlp}.gate", t
        elif name == "lm_head" and self.config.model_type == "gpt_neox":
            yield "embed_out", t
        else:
            yield name + bias, t

    def leaves(self):
        """(name, gradient, function that adds to the leaf) of all, behind the backward pass."""
        for b, x in enumerate(list(self.inputs)):
            yield f"input.{b}", x.grad, functools.partial(self.move_input, b)
        for name, p in self.model.named_parameters():
            if families.sees(name):
                continue
            for (leaf, at), (_, gradient) in zip(self.parts(name, p.data), self.parts(name, p.grad)):
                yield leaf, gradient, at.add_

    def move_input(self, b, x):
        self.moved[b] = self.moved.get(b, 0) + x

    def difference(self, add, sign):
        """The central difference of the loss along `sign`."""
        with torch.no_grad():
            add(STEP * sign)
            above = self.loss(held=True).item()
            add(-2 * STEP * sign)
            below = self.loss(held=True).item()
            add(STEP * sign)
        return (above - below) / (2 * STEP)

    def lines(self):
        """(leaf, count, norm, dot) of all."""
        loss = self.loss()
        loss.backward()
        self.check()
        yield "loss", 1, loss.item(), loss.item()
        for leaf, gradient, add in list(self.leaves()):
            line = summary(leaf, gradient)
            off = abs(line[3] - self.difference(add, signs(gradient.shape)))
            if off > 1e-6 * line[2] + 1e-9:
                raise SystemExit(f"{self.directory}: {leaf}: {off:.2g} off the central difference")
            yield line
        if self.tied:
            names = {id(p): name for name, p in self.model.named_parameters()}
            leaf = next(self.parts(names[id(self.embedding)], self.embedding))[0] + "+lm_head"
            yield summary(leaf, self.embedding.grad + self.model.lm_head.weight.grad)


def summary(leaf, gradient):
    norm, dot = gradient.norm().item(), (gradient * signs(gradient.shape)).sum().item()
    return (leaf, gradient.numel(), norm, dot) if norm > 1e-12 else (leaf, gradient.numel(), 0, 0)


def main():
    print("# FAMILY LEAF COUNT NORM DOT: tests/interop/gradients.py")
    print(f"# transformers {transformers.__version__}, torch {torch.__version__}")
    for name, directory in families.checkpoints(sys.argv[1], sys.argv[2:]):
        for leaf, count, norm, dot in Model(directory).lines():
            print(f"{name} {leaf} {count} {norm:.10g} {dot:.10g}")


if __name__ == "__main__":
    main()
