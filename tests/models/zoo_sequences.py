"""Classifiers of sequences, sounds, tables, sets and graphs."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LSTMText(nn.Module):
    """Ids of words in, the state after the last word out."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(20, 5), nn.LSTM(5, 6, batch_first=True)
        self.dropout, self.fc = nn.Dropout(0.3), nn.Linear(6, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(self.dropout(self.lstm(self.words(ids))[0][:, -1]))


class PackedText(nn.Module):
    """Both directions of a packed batch."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(20, 5), nn.LSTM(5, 4, batch_first=True, bidirectional=True)
        self.classifier = nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3))

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(self.words(ids), lengths, batch_first=True, enforce_sorted=False)
        return self.classifier(torch.cat(self.lstm(packed)[1][0].unbind(), 1))


class Recurrent(nn.Module):
    """Float sequences [B, T, 5]."""

    def __init__(self, kind: type[nn.RNNBase], bidirectional: bool = False) -> None:
        super().__init__()
        self.rnn = kind(5, 4, num_layers=2, batch_first=True, dropout=0.2, bidirectional=bidirectional)
        self.output_layer = nn.Linear(4 * (1 + bidirectional), 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.output_layer(self.rnn(x)[0].mean(1))


class Encoder(nn.Module):
    """torch's own encoder, which has a fast path of its own in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
        self.project = nn.Linear(5, 6)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.score = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.score(self.encoder(self.project(x)))[:, -1]


class Graph(nn.Module):
    """x [B, N, N + F]: the adjacency of N nodes, then their features."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(3, 5), nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        links, nodes = x[:, :, : x.shape[1]], x[:, :, x.shape[1] :]
        links = links / (links.sum(2, keepdim=True) + 1)
        nodes = self.first(links @ nodes).relu()
        return self.head(self.second(links @ nodes).relu().sum(1))


class Sound(nn.Module):
    """Waves [B, 1, T] through 1-d convolutions; the head is a linear layer, or a 1x1 convolution at every moment."""

    def __init__(self, pointwise: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(1, 4, 5, 2), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 6, 3, 2), nn.ReLU())
        self.pointwise = pointwise
        self.fc: nn.Module = nn.Conv1d(6, 3, 1) if pointwise else nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        return self.fc(x).mean(2) if self.pointwise else self.fc(x.mean(2))


class LogMel(nn.Module):
    """A spectrogram in the model itself."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.register_buffer("mel", torch.rand(9, 5))
        self.conv, self.fc = nn.Conv1d(5, 4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        power = torch.stft(x[:, 0], 16, 8, window=self.window, return_complex=True).abs().square()
        return self.fc(self.conv((power.transpose(1, 2) @ self.mel + 1e-6).log().transpose(1, 2)).relu().mean(2))


class Table(nn.Module):
    """The first two columns are categories, the others numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(3, 2), nn.Embedding(4, 2)])
        self.norm = nn.BatchNorm1d(4)
        self.mlp = nn.Sequential(nn.Linear(8, 6), nn.SELU(), nn.AlphaDropout(0.1))
        self.output = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        codes = [table(x[:, i].long()) for i, table in enumerate(self.tables)]
        return self.output(self.mlp(torch.cat([*codes, self.norm(x[:, 2:])], 1)))


class DeepSets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4))
        self.head = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.each(x).sum(1))


class Halved(nn.Module):
    """A body in bfloat16 and a head in float32, with casts of its own."""

    def __init__(self, text: bool) -> None:
        super().__init__()
        self.body: nn.Module = nn.Embedding(20, 5) if text else nn.Linear(6, 5)
        self.body.bfloat16()
        self.fc, self.text = nn.Linear(5, 3), text

    def forward(self, x: Tensor) -> Tensor:
        z = self.body(x).mean(1) if self.text else self.body(x.bfloat16()).tanh()
        return self.fc(z.float())
