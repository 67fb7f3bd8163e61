"""Sentences, scores and phrases: on small files made here, and on the real ones where they are beside the checkout."""

import random
from pathlib import Path

import pytest
import torch
from data_sets import offer, write_folder

from poise.auditing.texts import open_texts
from poise.data.loading.sentences import WordPieces
from poise.data.sets import cache, catalogue
from poise.data.sets import fetch as sources
from poise.data.sets.sst import (
    as_glue,
    parse_tree,
    read_glue,
    read_phrases,
    read_raw_scores,
    read_sentences,
    require_scores,
)
from poise.errors import DataError, DataMismatch, DataNotFound

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(not (SHARED / "sst").exists(), reason="the SST files are not beside the checkout")

TREES = ["(3 (2 It) (4 (3 works) (2 .)))", "(1 (2 -LRB-) (1 (0 bad) (2 -RRB-)))", "(2 (2 two\u00a0in) (2 one\u0085))"]

SCORES = [
    f"{token}\t2\t{score}\trecovered\n"
    for token, score in [("It", 0.5), ("works", 0.7), (".", 0.5), ("-LRB-", 0.5), ("bad", 0.1), ("-RRB-", 0.5)]
] + ["two\u00a0in\t2\t0.4\tclass\n", "one\u0085\t2\t0.6\testimated\n"]
DICTIONARY = "It|1\nworks|2\n.|3\n-LRB-|4\nbad|5\n-RRB-|6\ntwo\u00a0in|7\none\u0085|8\nIt works|9\na|b|10\n"
LABELS = "phrase ids|sentiment values\n" + "".join(f"{number}|{number / 10}\n" for number in range(1, 11))


@pytest.fixture
def sst(tmp_path: Path) -> Path:
    (tmp_path / "trees").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "trees" / f"{split}.txt").write_text("\n".join(TREES) + "\n", encoding="utf8")
    (tmp_path / "token_scores.tsv").write_text("token\tclass\tscore\thow\n" + "".join(SCORES), encoding="utf8")
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


def with_dictionary(sst: Path) -> Path:
    (sst / "dictionary.txt").write_text(DICTIONARY, encoding="utf8")
    (sst / "sentiment_labels.txt").write_text(LABELS)
    return sst


def test_every_sentence_has_both_columns_and_says_where_raw_comes_from(sst: Path) -> None:
    first, second, _ = read_sentences(sst, "dev")
    assert (first.raw_scores, first.raw_source) == ((0.5, 0.7, 0.5), "token_scores")
    assert (second.raw_scores, second.leaf_scores) == ((0.5, 0.1, 0.5), (0.5, 0.0, 0.5))
    first, _, third = read_sentences(with_dictionary(sst), "dev")
    assert (first.raw_scores, first.raw_source, set(first.recovered)) == ((0.1, 0.2, 0.3), "dictionary", {True})
    assert third.raw_scores == (0.7, 0.8)
    assert read_raw_scores(sst)[1]["a|b"] == 1.0


def test_estimates_are_told_from_the_annotators_own_scores(sst: Path) -> None:
    assert [each.recovered for each in read_sentences(sst, "dev")] == [(True,) * 3, (True,) * 3, (False, False)]


def test_without_raw_scores_there_are_the_leaves(sst: Path) -> None:
    (sst / "token_scores.tsv").unlink()
    assert read_raw_scores(sst) == (None, {})
    sentence = read_sentences(sst, "dev")[0]
    assert (sentence.raw_scores, sentence.raw_source, sentence.leaf_scores) == (None, None, (0.5, 0.75, 0.5))


def test_the_odd_token_without_a_score_is_nan_and_many_are_an_error(sst: Path) -> None:
    (sst / "trees" / "dev.txt").write_text("\n".join([TREES[0]] * 50 + ["(2 odd)"]))
    assert read_sentences(sst, "dev")[-1].raw_scores == pytest.approx((float("nan"),), nan_ok=True)
    (sst / "trees" / "dev.txt").write_text("\n".join([TREES[0]] * 50 + ["(2 odd)"] * 2))
    with pytest.raises(DataMismatch, match=r"token_scores\.tsv has no score for 2 of 152 tokens, such as 'odd'"):
        read_sentences(sst, "dev")


HTML = "<!DOCTYPE html>\n<html>\n<title>Sign in</title>\n</html>\n"
FITTING = {"It": 0.5, "works": 0.7, ".": 0.41, "-LRB-": 0.6, "bad": 0.2, "-RRB-": 0.5, "two\u00a0in": 0.5}


@pytest.fixture
def offered(sst: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SST in small in the catalogue, with scores that fit the trees in both files."""
    trees = [
        "(3 (2 It) (4 (3 works) (2 .)))",
        "(1 (2 -LRB-) (1 (0 bad) (2 -RRB-)))",
        "(2 (2 two\u00a0in) (2 one\u0085))",
    ]
    scores = {**FITTING, "one\u0085": 0.5}
    files = {f"trees/{split}.txt": "\n".join(trees) for split in ("train", "dev", "test")}
    files |= {name: name for name in ("datasetSentences.txt", "datasetSplit.txt", "SOStr.txt", "STree.txt")}
    files["sentiment_labels.txt"] = "ids|values\n" + "".join(f"{n}|{v}\n" for n, v in enumerate(scores.values()))
    items = {name: text.encode() for name, text in files.items()}
    offer(monkeypatch, catalogue.SST, items, require=catalogue.SST.require)
    files["dictionary.txt"] = "".join(f"{token}|{n}\n" for n, token in enumerate(scores))
    files["token_scores.tsv"] = "token\tclass\tscore\thow\n" + "".join(f"{t}\t0\t{v}\tx\n" for t, v in scores.items())
    return write_folder({name: text.encode() for name, text in files.items()}, sst)


def test_scores_that_fit_the_trees_are_stored_and_digested(offered: Path) -> None:
    assert sources.get("sst", offered) == str(offered)
    sources.check("sst")
    for name in ("dictionary.txt", "token_scores.tsv"):
        path = cache.path_of("sst", name)
        right = path.read_bytes()
        path.write_bytes(right.replace(b"0.7", b"0.8").replace(b"|1", b"|2"))
        with pytest.raises(DataMismatch, match=rf"{name} of sst has the wrong content.* poise data get sst --again"):
            sources.check("sst")
        path.write_bytes(right)
    sources.check("sst")


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("dictionary.txt", "It|0\n", "", r"dictionary\.txt is incomplete: it lacks 1 of 8 phrases"),
        ("dictionary.txt", "", HTML, r"dictionary\.txt has the wrong format"),
        ("dictionary.txt", "bad|4", "worse|4", r"dictionary\.txt has no score for 3 of 24 tokens, such as 'bad'"),
        (
            "dictionary.txt",
            "works|1\n.|2",
            ".|1\nworks|2",
            r"dictionary\.txt does not belong to these trees.* 6 of 24 tokens",
        ),
        ("token_scores.tsv", "\t0.2\t", "\t0.21\t", r"token_scores\.tsv does not belong to these trees.*'bad'"),
        ("token_scores.tsv", "\t0.2\t", "\t-1\t", r"token_scores\.tsv has the wrong format"),
    ],
)
def test_scores_of_something_else_are_refused(offered: Path, file: str, old: str, new: str, sentence: str) -> None:
    text = (offered / file).read_text(encoding="utf8")
    (offered / file).write_text(text.replace(old, new) if old else new, encoding="utf8")
    with pytest.raises(DataNotFound, match=sentence):
        sources.get("sst", offered)


@needs_shared
def test_the_scores_beside_the_checkout_fit_their_trees() -> None:
    require_scores(SHARED / "sst")


def test_a_folder_may_be_written_as_text(sst: Path) -> None:
    assert read_sentences(str(sst), "dev") == read_sentences(sst, "dev")
    assert read_raw_scores(str(sst)) == read_raw_scores(sst)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "dictionary.txt",
            HTML,
            r"dictionary\.txt has the wrong format: expected phrase\|id, found '<!DOCTYPE html>'",
        ),
        ("dictionary.txt", "It|1\nworks|77\n", r"expected phrase\|id, found 'works\|77'"),
        ("dictionary.txt", "It|1\nworks|2\n", r"dictionary\.txt is incomplete: it lacks 8 of 10 phrases"),
        ("dictionary.txt", "", r"dictionary\.txt is incomplete: it lacks 10 of 10 phrases"),
        ("dictionary.txt", b"\x1f\x8b\x08\xff", r"dictionary\.txt is not UTF-8 text"),
        ("sentiment_labels.txt", HTML, r"sentiment_labels\.txt has the wrong format: expected a score in \[0, 1\]"),
        ("token_scores.tsv", HTML, r"token_scores\.tsv has the wrong format: expected token, class, score"),
        (
            "token_scores.tsv",
            "token\tclass\tscore\na\t2\thigh\n",
            r"expected a score in \[0, 1\], found 'a\\t2\\thigh'",
        ),
        ("token_scores.tsv", "token\tclass\tscore\na\t2\t7\n", r"expected a score in \[0, 1\]"),
        ("token_scores.tsv", "", r"token_scores\.tsv has no score for 8 of 8 tokens, such as 'It'"),
    ],
)
def test_a_wrong_file_of_scores_gets_a_sentence(sst: Path, name: str, content: str | bytes, sentence: str) -> None:
    if name != "token_scores.tsv":
        with_dictionary(sst)
    (sst / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataMismatch, match=sentence):
        read_sentences(sst, "dev")


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
    pytest.importorskip("tokenizers", reason="pip install '.[text]'")
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
    assert how == "token_scores"
    for sentence in read_sentences(SHARED / "sst", "test"):
        assert sentence.raw_source == "token_scores"
        assert sentence.raw_scores == tuple(scores[token] for token in sentence.tokens)
        assert len(sentence.raw_scores) == len(sentence.leaf_scores) == len(sentence.tokens)
    assert len(read_phrases(SHARED / "sst2")) == 67_349 - 2
    assert len(read_glue(SHARED / "sst2", SHARED / "sst", "dev")) == 872
    test = read_glue(SHARED / "sst2", SHARED / "sst", "test")
    assert (len(test), sum(label for _, label in test)) == (1821, 909)
    assert torch.tensor([label for _, label in test]).float().mean() < 0.5


READERS = {
    "sst/trees/dev.txt": lambda home: read_sentences(home / "sst", "dev"),
    "sst/token_scores.tsv": lambda home: read_sentences(home / "sst", "dev"),
    "sst/dictionary.txt": lambda home: read_raw_scores(home / "sst"),
    "sst/sentiment_labels.txt": lambda home: read_raw_scores(home / "sst"),
    "sst/trees/test.txt": lambda home: read_glue(home / "sst2", home / "sst", "test"),
    "sst2/train.tsv": lambda home: read_phrases(home / "sst2"),
    "sst2/dev.tsv": lambda home: open_texts("sst2", None, None, []),
    "sst2/test.tsv": lambda home: read_phrases(home / "sst2"),
    "bert-vocab/vocab.txt": lambda home: cache.path_of("bert-vocab", "vocab.txt"),
}


@pytest.fixture
def stored(sst: Path, cache_folder: Path, request: pytest.FixtureRequest) -> Path:
    """All texts in the cache, with one kind of raw scores."""
    texts = {f"trees/{split}.txt": "\n".join(TREES) + "\n" for split in ("train", "dev", "test")}
    texts["token_scores.tsv"] = (sst / "token_scores.tsv").read_text(encoding="utf8")
    if "dictionary" in request.node.name or "labels" in request.node.name:
        texts |= {"dictionary.txt": DICTIONARY, "sentiment_labels.txt": LABELS}
    glue = {
        "train.tsv": "sentence\tlabel\ngood \t1\n",
        "dev.tsv": "sentence\tlabel\nfine \t1\n",
        "test.tsv": "index\tsentence\n0\tIt works .\n",
    }
    for name, files in {"sst": texts, "sst2": glue, "bert-vocab": {"vocab.txt": "[PAD]\n[UNK]\na\n"}}.items():
        cache.store(name, [(item, text.encode()) for item, text in files.items()], "made", {})
    return cache_folder


@pytest.mark.parametrize("file", READERS)
def test_a_flipped_bit_in_a_stored_text_is_named_with_the_remedy(stored: Path, file: str) -> None:
    name, _, item = file.partition("/")
    whole = (stored / file).read_bytes()
    READERS[file](stored)
    for bit in random.Random(0).sample(range(len(whole) * 8), 40):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        (stored / file).write_bytes(flipped)
        with pytest.raises(DataMismatch, match=rf"^{item} of {name} has changed on disk: .* data get {name} --again$"):
            READERS[file](stored)
    (stored / file).write_bytes(whole)
    READERS[file](stored)


def test_texts_of_a_set_with_a_damaged_manifest_are_not_read(stored: Path) -> None:
    (stored / "sst" / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"sst is incomplete in .*poise data get sst --again"):
        read_sentences(stored / "sst", "dev")


def test_texts_beside_the_stored_sets_are_read(sst: Path, cache_folder: Path) -> None:
    (cache_folder / "mine").mkdir(parents=True)
    sst.joinpath("trees").rename(cache_folder / "mine" / "trees")
    assert len(read_sentences(cache_folder / "mine", "dev")) == len(TREES)


def test_a_text_that_was_not_stored_is_not_read(stored: Path) -> None:
    (stored / "sst" / "dictionary.txt").write_text(DICTIONARY, encoding="utf8")
    (stored / "sst" / "sentiment_labels.txt").write_text(LABELS, encoding="utf8")
    with pytest.raises(DataMismatch, match=r"sentiment_labels\.txt of sst has changed on disk"):
        read_raw_scores(stored / "sst")
