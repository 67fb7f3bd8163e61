"""Sentences, scores and phrases: on small files made here, and on the real ones where they are beside the checkout."""

from pathlib import Path

import pytest
import torch

from poise.data.errors import DataMismatch, DataNotFound
from poise.data.sst import as_glue, parse_tree, read_glue, read_phrases, read_raw_scores, read_sentences
from poise.data.wordpieces import WordPieces

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(not (SHARED / "sst").exists(), reason="the SST files are not beside the checkout")

TREES = ["(3 (2 It) (4 (3 works) (2 .)))", "(1 (2 -LRB-) (1 (0 bad) (2 -RRB-)))", "(2 (2 two\u00a0in) (2 one\u0085))"]


@pytest.fixture
def sst(tmp_path: Path) -> Path:
    (tmp_path / "trees").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "trees" / f"{split}.txt").write_text("\n".join(TREES) + "\n", encoding="utf8")
    (tmp_path / "token_scores.tsv").write_text(
        "token\tclass\tscore\thow\nworks\t3\t0.75\trecovered\n-LRB-\t2\t0.5\tclass\n"
    )
    return tmp_path


def test_a_tree_gives_tokens_labels_and_leaf_scores() -> None:
    sentence = parse_tree(TREES[0])
    assert (sentence.tokens, sentence.leaves, sentence.root) == (("It", "works", "."), (2, 3, 2), 3)
    assert (sentence.text, sentence.label, sentence.leaf_scores) == ("It works .", 1, (0.5, 0.75, 0.5))


def test_brackets_odd_spaces_and_neutral_sentences(sst: Path) -> None:
    sentences = read_sentences(sst, "dev")
    assert sentences[1].tokens == ("(", "bad", ")")
    assert sentences[1].label == 0
    assert sentences[2].tokens == ("two\u00a0in", "one\u0085")
    assert sentences[2].label is None


def test_raw_scores_prefer_the_official_dictionary(sst: Path) -> None:
    assert read_raw_scores(sst) == ("token_scores.tsv", {"works": 0.75, "(": 0.5})
    (sst / "dictionary.txt").write_text("works|1\nIt works|2\n-LRB-|3\na|b|4\n")
    (sst / "sentiment_labels.txt").write_text("phrase ids|sentiment values\n1|0.8\n2|0.9\n3|0.5\n4|0.1\n")
    assert read_raw_scores(sst) == ("dictionary.txt", {"works": 0.8, "(": 0.5, "a|b": 0.1})
    with pytest.raises(DataNotFound, match=r"neither dictionary\.txt nor token_scores\.tsv"):
        read_raw_scores(sst / "trees")


def test_phrases_leave_out_what_is_tested(sst: Path) -> None:
    (sst / "train.tsv").write_text("sentence\tlabel\nit works . \t1\nso bad \t0\nfine \t1\n")
    (sst / "dev.tsv").write_text("sentence\tlabel\nso bad \t0\n")
    (sst / "test.tsv").write_text("index\tsentence\n0\tit works .\n1\t( bad )\n")
    assert read_phrases(sst) == [("fine", 1)]
    assert read_glue(sst, sst, "dev") == [("so bad", 0)]
    assert read_glue(sst, sst, "test") == [("it works .", 1), ("( bad )", 0)]
    (sst / "test.tsv").write_text("index\tsentence\n0\tsomething else\n")
    with pytest.raises(DataMismatch, match="'something else' is not in the trees"):
        read_glue(sst, sst, "test")


def test_spellings_meet() -> None:
    assert as_glue("Writer\\/director with Humour") == "writer/director with humor"
    assert as_glue("caf\u00c3\u00a9") == "caf\u00e9"


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match="poise data get sst sst2"):
        read_sentences(tmp_path, "dev")
    with pytest.raises(DataMismatch, match="not a sentiment tree: 'hello'"):
        parse_tree("hello")


@pytest.fixture
def pieces(tmp_path: Path) -> WordPieces:
    pytest.importorskip("tokenizers", reason="pip install 'poise[text]'")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "it", "work", "##s", ".", "-", "well", "made"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    return WordPieces(tmp_path / "vocab.txt")


def test_word_pieces_know_their_tokens(pieces: WordPieces) -> None:
    x, words = pieces([["It", "works", "."], ["well-made"]])
    assert x.ids.tolist() == [[2, 5, 6, 7, 8, 3], [2, 10, 9, 11, 3, 0]]
    assert words.tolist() == [[-1, 0, 1, 1, 2, -1], [-1, 0, 0, 0, -1, -1]]
    assert x.mask.sum(1).tolist() == [6, 5]
    assert x.features.tolist() == (words >= 0).tolist()
    assert len(pieces) == 12


def test_long_sentences_are_cut_at_the_end(pieces: WordPieces) -> None:
    x, words = pieces([["it"] * 50], max_length=10)
    assert x.ids.tolist() == [[2, *[5] * 8, 3]]
    assert words.tolist() == [[-1, *range(8), -1]]
    with pytest.raises(ValueError, match="no sentences"):
        pieces([])


@needs_shared
def test_the_real_sentences() -> None:
    split = [line.split(",") for line in (SHARED / "sst" / "datasetSplit.txt").read_text().split("\n")[1:] if line]
    whole = [line.split("|") for line in (SHARED / "sst" / "SOStr.txt").read_text(encoding="utf8").split("\n") if line]
    counts = {"train": ("1", 8544, 6920), "test": ("2", 2210, 1821), "dev": ("3", 1101, 872)}
    for name, (number, total, binary) in counts.items():
        sentences = read_sentences(SHARED / "sst", name)
        assert (len(sentences), sum(s.label is not None for s in sentences)) == (total, binary)
        official = [whole[int(index) - 1] for index, part in split if part == number]
        assert [list(s.tokens) for s in sentences] == official


@needs_shared
def test_the_real_scores_and_phrases() -> None:
    how, scores = read_raw_scores(SHARED / "sst")
    assert how == "token_scores.tsv"
    assert all(token in scores for s in read_sentences(SHARED / "sst", "test") for token in s.tokens)
    assert len(read_phrases(SHARED / "sst2")) == 67_349 - 2
    assert len(read_glue(SHARED / "sst2", SHARED / "sst", "dev")) == 872
    test = read_glue(SHARED / "sst2", SHARED / "sst", "test")
    assert (len(test), sum(label for _, label in test)) == (1821, 909)
    assert torch.tensor([label for _, label in test]).float().mean() < 0.5
