"""Train the demo model: transformers' Qwen3.5 on generated conversations, on the CPU, for a given time.

PYTHONPATH=bench:. python -m demo.train --out build/demo --minutes 60

Prints a line now and then, saves a checkpoint every few minutes and continues from it when started again.
The learning rate follows the clock, so a slower machine gets a finished, if less trained, model.
"""

from __future__ import annotations

import argparse
import math
import time
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from demo import fast_layers, vocabulary
from demo.corpus import conversations
from demo.samples import Renderer, Sample, Sampler, batches

PEAK_RATE = 3e-3
WARMUP = 0.02  # of the time
REST_SHARE, REST_WEIGHT = 0.1, 0.3  # of the tokens that are no answer: how many count, and how much
N_HELD_OUT = 200
BATCH_TOKENS = 6144


def config(n_vocab: int, end_id: int) -> Qwen3_5TextConfig:
    return Qwen3_5TextConfig(
        vocab_size=n_vocab,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=6,
        full_attention_interval=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        linear_key_head_dim=fast_layers.DIM,
        linear_value_head_dim=fast_layers.DIM,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_conv_kernel_dim=4,
        max_position_embeddings=4096,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 1e4,
            "partial_rotary_factor": 0.25,
            "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        },
        bos_token_id=None,
        eos_token_id=end_id,
        pad_token_id=None,
    )


class Trainer:
    """The model, its optimizers, and how far it is."""

    def __init__(self, out: Path, minutes: float) -> None:
        self.checkpoint = out / "checkpoint.pt"
        self.budget_s = minutes * 60
        words = out / "vocabulary.json"
        if not words.exists():
            renderer = Renderer()
            vocabulary.save(vocabulary.train(map(renderer.render, islice(conversations(0), 6000))), words)
        encoder = vocabulary.Encoder(vocabulary.load(words))
        self.sampler = Sampler(encoder)
        torch.manual_seed(1)
        self.model = Qwen3_5ForCausalLM(config(len(encoder.ids), encoder.ids["<|im_end|>"])).float()
        fast_layers.install()
        matrices: list[Tensor] = []
        others: list[Tensor] = []
        for name, weight in self.model.named_parameters():
            is_matrix = weight.ndim == 2 and "embed" not in name and min(weight.shape) >= 64
            (matrices if is_matrix else others).append(weight)
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(matrices, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0),
        ]
        self.elapsed_s, self.step, self.n_tokens = 0.0, 0, 0
        if self.checkpoint.exists():
            self._load()

    def run(self) -> None:
        train = batches(self.sampler.samples(seed=1000 + self.step), BATCH_TOKENS, seed=self.step)
        held_out = list(islice(self.sampler.samples(seed=7, held_out=True), N_HELD_OUT))
        now, said, saved, mean_loss = time.monotonic(), 0.0, 0.0, 0.0
        for batch in train:
            rate = self._rate()
            loss = self._train_step(batch, rate)
            mean_loss = loss if not mean_loss else 0.95 * mean_loss + 0.05 * loss
            then, now = now, time.monotonic()
            self.elapsed_s += now - then
            self.step += 1
            n_tokens = sum(len(sample.ids) for sample in batch)
            self.n_tokens += n_tokens
            is_over = self.elapsed_s >= self.budget_s
            if now - said > 10 or is_over:
                said = now
                left_min = (self.budget_s - self.elapsed_s) / 60
                print(
                    f"step {self.step}  loss {mean_loss:.4f}  rate {rate:.1e}  {n_tokens / (now - then):,.0f} tokens/s"
                    f"  {self.n_tokens / 1e6:.2f} M tokens  {left_min:.1f} min left",
                    flush=True,
                )
            if now - saved > 240 or is_over:
                saved = now
                self._save()
                print(f"held out: {self._accuracy(held_out)}", flush=True)
            if is_over:
                return

    def _rate(self) -> float:
        done = min(1.0, self.elapsed_s / self.budget_s)
        return PEAK_RATE * min(1.0, (done + 1e-3) / WARMUP) * (0.02 + 0.98 * (1 + math.cos(math.pi * done)) / 2)

    def _train_step(self, batch: list[Sample], rate: float) -> float:
        ids, weights = _tensors(batch)
        rest = (torch.rand(weights.shape) < REST_SHARE) & (weights == 0) & (ids[:, 1:] >= 0)
        weights[rest] = REST_WEIGHT
        logits, targets, chosen = self._logits(ids, weights > 0)
        loss = (F.cross_entropy(logits, targets, reduction="none") * weights[chosen]).sum() / weights.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        return float(loss.item())

    def _logits(self, ids: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits where a token is chosen, and the tokens.  Padding comes last, so causality needs no mask."""
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.model.model(input_ids=ids[:, :-1].clamp(min=0), use_cache=False).last_hidden_state
            logits = self.model.lm_head(hidden[chosen])
        return logits.float(), ids[:, 1:][chosen], chosen

    @torch.no_grad()
    def _accuracy(self, held_out: list[Sample]) -> str:
        """How many answers of the last turn greedy decoding would give word for word, by kind."""
        right: dict[str, list[bool]] = {}
        for batch in batches(iter(held_out), BATCH_TOKENS, seed=0):
            ids, weights = _tensors(batch)
            logits, targets, chosen = self._logits(ids, weights > 0)
            hits = torch.zeros(chosen.shape, dtype=torch.bool)
            hits[chosen] = logits.argmax(-1) == targets
            for row, sample in enumerate(batch):
                for (start, end), kind in zip(sample.answers[-sample.n_last :], _kinds(sample), strict=True):
                    right.setdefault(kind, []).append(bool(hits[row, start - 1 : end - 1].all()))
        return "  ".join(f"{kind} {sum(r) / len(r):.1%} of {len(r)}" for kind, r in sorted(right.items()))

    def _save(self) -> None:
        partial = self.checkpoint.with_suffix(".partial")
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "progress": (self.elapsed_s, self.step, self.n_tokens),
        }
        torch.save(state, partial)
        partial.rename(self.checkpoint)

    def _load(self) -> None:
        state = torch.load(self.checkpoint)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.elapsed_s, self.step, self.n_tokens = state["progress"]


def _kinds(sample: Sample) -> list[str]:
    kind = sample.conversation.checks[0].kind
    return ["calls", "after a tool"] if kind == "calls" else [kind]


def _tensors(batch: list[Sample]) -> tuple[Tensor, Tensor]:
    """Ids padded with -1, and the loss weights of all but the first."""
    width = max(len(sample.ids) for sample in batch)
    ids = torch.full((len(batch), width), -1)
    weights = torch.zeros(len(batch), width)
    for row, sample in enumerate(batch):
        ids[row, : len(sample.ids)] = torch.tensor(sample.ids)
        for start, end in sample.answers:
            weights[row, start:end] = 1
    return ids, weights[:, 1:]


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the demo model.")
    parser.add_argument("--out", type=Path, default=Path("build/demo"))
    parser.add_argument("--minutes", type=float, default=60, help="of training, default: %(default)s")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)
    Trainer(args.out, args.minutes).run()


if __name__ == "__main__":
    main()
