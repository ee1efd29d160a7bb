"""Texts and names follow the word list.

text_style.toml holds the words and what is left to fix.
"""

import subprocess

import pytest

import text_style


def test_no_package_has_more_banned_words_or_long_sentences_than_its_limit() -> None:
    try:
        files = text_style.tracked()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a copy without history does not tell the repository's files from others")
    rows = [row for name in files for row in text_style.findings(name)]
    over = text_style.exceeded(rows)
    assert not over, "; ".join(over) + "; `python tests/text_style.py FILE` lists the lines"


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("def found(): pass", "found"),
        ("class LoneTimes: pass", "LoneTimes"),
        ("def f(beside): pass", "beside"),
        ("import os as cards", "cards"),
        ('raise ValueError(f"no card of index {index}")', "card"),
        ("x = 1  # on a lone call", "lone"),
        ('"""Return cards."""\n', None),
        ('x = "lone"', None),
        ("def test_what_is_told(): pass", None),
        ("y = foundation", None),
    ],
)
def test_names_messages_and_comments_are_checked(code, word) -> None:
    rows = list(text_style.python("module.py", code))
    assert [row.word for row in rows] == ([word] if word else [])


def test_a_long_first_line_of_a_docstring_is_reported() -> None:
    rows = list(text_style.python("module.py", '"""' + "word " * 16 + '"""'))
    assert [(row.kind, row.line) for row in rows] == [("lengths", 1)]


def test_sentences_leave_out_code_tables_and_comments() -> None:
    table = "```\nnot this.\n```\n| nor | this |\n<!-- nor\nthat. -->\n"
    text = f"# A title\n\nOne two `x y`\nthree. Four.\n\n{table}- Five six\n"
    read = [(sentence.line, sentence.words) for sentence in text_style.sentences(text)]
    assert read == [(3, ("One", "two", "Code", "three.")), (4, ("Four.",)), (12, ("Five", "six"))]


def test_a_rise_above_a_limit_is_an_error_and_a_fall_is_none(monkeypatch) -> None:
    monkeypatch.setitem(text_style.SETTINGS, "limits", {"words": {"docs": 1}, "lengths": {}})
    row = text_style.Finding("docs/a.md", 1, "lone", "single")
    assert not text_style.exceeded([]) and not text_style.exceeded([row])
    assert text_style.exceeded([row, row]) == ["docs: 2 findings (words), at most 1"]
    assert text_style.exceeded([text_style.Finding("docs/a.md", 1, "sentence", "", "lengths")])


def test_the_limits_only_fall(monkeypatch, tmp_path) -> None:
    path = tmp_path / "style.toml"
    path.write_text('[prose]\nlone = "single"\n\n[limits.words]\ndocs = 1\ntop = 4\n\n[limits.lengths]\n')
    monkeypatch.setattr(text_style, "CONFIG", path)
    monkeypatch.setitem(text_style.SETTINGS, "limits", {"words": {"docs": 1, "top": 4}, "lengths": {}})
    row = text_style.Finding("docs/a.md", 1, "lone", "single")
    text_style.ratchet([row, row, text_style.Finding("README.md", 1, "lone", "single")])
    limits = text_style.tomllib.loads(path.read_text())["limits"]
    assert limits == {"words": {"docs": 1, "top": 1}, "lengths": {}}


@pytest.mark.parametrize(
    ("subject", "right"),
    [
        ("fix(report): name the missing file", True),
        ("ci: check spelling", True),
        ("merge: a branch", True),
        ("Fix the report", False),
        ("fix(report): Name the missing file", False),
        ("fix(report): name the missing file.", False),
        ("style: format", False),
        ("docs: " + "a" * 67, False),
    ],
)
def test_the_commit_hook_checks_subjects(tmp_path, subject, right) -> None:
    (tmp_path / "message").write_text(f"{subject}\n\nWhy.\n# a comment\n")
    hook = [str(text_style.ROOT / ".ci" / "commit-msg"), str(tmp_path / "message")]
    done = subprocess.run(hook, capture_output=True, text=True)
    assert (done.returncode == 0) == right and bool(done.stderr) != right
