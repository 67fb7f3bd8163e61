"""FCL in a Hugging Face Trainer: one overridden method.

    pip install ".[transformers]"
    python examples/huggingface_trainer.py

A tiny BERT learns made-up sentences from its configuration, so that nothing is downloaded. With your own tokenizer,
request `return_special_tokens_mask=True` and keep that column (remove_unused_columns=False): special tokens are never
chosen.
"""

import tempfile
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import poise

START, END = 1, 2


class FCLTrainer(Trainer):
    def __init__(self, *arguments: Any, objective: poise.Objective, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if self.args.world_size > 1:
            raise ValueError("several processes: wrap poise.TrainStep(model, objective) in DDP instead")
        self.objective = objective
        self.classifier = poise.split(self.model)
        self.model_accepts_loss_kwargs = False  # the loss is a mean: Trainer must divide by the accumulation

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False, **_: Any) -> Any:
        x = poise.Tokens(inputs["input_ids"], inputs["attention_mask"], inputs["special_tokens_mask"])
        with self.accelerator.autocast():
            loss = self.objective(self.classifier, x, inputs["labels"], self.state.global_step)
        return (loss.total, {"logits": loss.logits}) if return_outputs else loss.total


def sentences(count: int) -> list[dict[str, Tensor]]:
    """Words 3-40; those up to 10 are good, 11-17 are bad, the others are neutral. The majority is the label."""
    rows = []
    generator = torch.Generator().manual_seed(0)
    for length in torch.randint(4, 12, (count,), generator=generator).tolist():
        words = torch.randint(3, 41, (length,), generator=generator)
        ids = torch.zeros(14, dtype=torch.long)
        ids[: length + 2] = torch.cat([torch.tensor([START]), words, torch.tensor([END])])
        good, bad = (words <= 10).sum(), ((words > 10) & (words <= 17)).sum()
        rows.append(
            {
                "input_ids": ids,
                "attention_mask": (ids > 0).long(),
                "special_tokens_mask": (ids < 3).long(),
                "labels": (good > bad).long(),
            }
        )
    return rows


def main(steps: int = 60, batch_size: int = 32, **options: Any) -> FCLTrainer:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = BertForSequenceClassification(BertConfig(vocab_size=41, num_labels=2, **sizes))
    objective = poise.FCL(
        utility=poise.RemovalUtility(),
        select=poise.TopBottomFraction(0.1),
        perturb=poise.Remove(),
        contrast=poise.InfoNCE(temperature=0.1),
        weight=poise.Ramp(0.1, start=steps // 2),
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=batch_size,
            learning_rate=1e-3,
            logging_steps=20,
            save_strategy="no",
            report_to=[],
            remove_unused_columns=False,
            dataloader_pin_memory=torch.cuda.is_available(),
            **options,
        )
        trainer = FCLTrainer(model, arguments, train_dataset=sentences(512), objective=objective)
        trainer.train()
    return trainer


if __name__ == "__main__":
    main()
