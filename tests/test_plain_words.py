"""The manual, and the package, use plain words (``plain_words.py``)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from plain_words import (
    COMMENTED,
    DERIVED,
    MODULES,
    PAGES,
    ROOT,
    blocks,
    check_comments,
    check_module,
    check_names,
    check_page,
    judge,
    sentences,
    texts,
)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_uses_plain_words(path: Path) -> None:
    assert not [str(finding) for finding in check_page(path)]


def test_modules_use_plain_words() -> None:
    assert not [str(finding) for path in MODULES for finding in check_module(path)]


def test_comments_use_plain_words() -> None:
    assert not [str(finding) for path in COMMENTED for finding in check_comments(path)]


def test_names_use_plain_words() -> None:
    assert not [str(finding) for path in MODULES for finding in check_names(path)]


def test_comments_and_names_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plain_words.ROOT", tmp_path)
    for name, text in {
        "a.cuh": "int a; // what it tells\n",
        "Makefile": "all: ## whatever\n",
        "a.py": "class AskedFor: pass  # whoever\n",
        "a.jinja": "{# of which #}\n",
    }.items():
        (tmp_path / name).write_text(text)
        assert len([*check_comments(tmp_path / name)]) == 1, name
    (finding,) = check_names(tmp_path / "a.py")
    assert str(finding) == 'a.py:1: "Asked": AskedFor'


def test_a_module_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plain_words.ROOT", tmp_path)
    path = tmp_path / "module.py"
    path.write_text('def f():\n    """Return x.\n\n    Args:\n        x: what it tells.\n    """\n')
    (finding,) = check_module(path)
    assert str(finding).startswith('module.py:5: "tells"')


def test_a_page_has_at_most_150_lines() -> None:
    pages = [path for path in PAGES if path.is_relative_to(ROOT / "docs")]
    texts = [DERIVED.sub("", path.read_text(encoding="utf-8")) for path in pages]
    lengths = {path: len(text.splitlines()) for path, text in zip(pages, texts, strict=True)}
    assert not {path: length for path, length in lengths.items() if length > 150}


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("word " * 36 + ".", "36 words"),
        ("The kernel tells its time.", "tells"),
        ("It is read if need be.", "if need be"),
        ("The centre is normalised.", "centre"),
        ("Arrays are normalised.", "normalised"),
        ("The joint efforts are the result.", "efforts"),
        ("What is missing is compiled.", "clause"),
        ("It is made, is read, was found and is written.", "passives"),
    ],
)
def test_a_fault_is_found(sentence: str, rule: str) -> None:
    assert any(rule in found for found in judge(sentence))


def test_plain_sentences_pass() -> None:
    for sentence in (
        "The kernel returns its time.",
        "What does a call cost?",
        "The URDF has effort limits.",
        "The noise is raised precisely, otherwise exercise the optimizer.",
    ):
        assert not list(judge(sentence))


def test_a_page_is_taken_apart() -> None:
    text = "One `a b` is.\nTwo\nis $x y$."
    page = f"# Head\n\n{text}\n\n| a | b |\n\n```\nnothing tells\n```\n* item\n"
    assert list(blocks(page)) == [
        (1, "Head"),
        (3, text),
        (7, "a "),
        (7, " b"),
        (12, "item"),
    ]
    assert list(sentences(text)) == [(0, "One code is."), (1, "Two is code.")]


def test_messages_and_docstrings_of_a_module_are_texts() -> None:
    source = '"""Doc."""\ndef f():\n    raise ModelError(f"no {x} here")\n'
    assert list(texts(ast.parse(source))) == [(1, "Doc."), (3, "no `value` here")]
