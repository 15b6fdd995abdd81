"""Templates make files that are Python and YAML, with the words filled in; nothing is overwritten."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from headgate.spark import init
from headgate.spark.init import KINDS, TEMPLATES, TemplateRefused, create, main


@pytest.mark.parametrize("kind", KINDS)
def test_a_project_is_made_of_each_template(kind: str, tmp_path: Path) -> None:
    made = create(tmp_path / "my project", kind, "broker:9092", "my.orders")
    assert made
    for path in made:
        text = path.read_text()
        assert "my.orders" in text or "my-project" in text
        if path.suffix == ".py":
            ast.parse(text, str(path))
            assert "$" not in text.replace("'$.state'", "")


def test_the_templates_are_those_of_the_table() -> None:
    assert {path.name for path in TEMPLATES.iterdir()} == set(KINDS)


@pytest.mark.parametrize("bootstrap, topic", [("h:1", 'x"; import os'), ('h:1", "', "orders"), ("h:1", "")])
def test_words_that_would_be_code_are_refused(bootstrap: str, topic: str, tmp_path: Path) -> None:
    with pytest.raises(TemplateRefused):
        create(tmp_path / "new", "batch", bootstrap, topic)
    assert not (tmp_path / "new").exists()


def test_a_folder_with_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").touch()
    assert init.main([str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert main([str(tmp_path / "new"), "--template", "batch"]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(tmp_path / "new" / "job.py")
    assert "python job.py" in err


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_reads_client_properties_at_its_start(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\n")
    assert main([str(tmp_path / "new"), "--template", kind, "--command-config", str(file)]) == 0
    jobs = list((tmp_path / "new").rglob("*.py"))
    assert [f"SECURITY = client_options({str(file)!r})" in job.read_text() for job in jobs] == [True]
    assert (f"--command-config {file};" in capsys.readouterr().err) == (kind == "copy")


def test_properties_that_cannot_be_used_make_no_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    for content, sentence in (("security.protocol=TLS", "does not exist"), ("sasl.x=1", "is no setting of clients")):
        file.write_text(content)
        with pytest.raises(SystemExit):
            main([str(tmp_path / "new"), "--command-config", str(file)])
        assert sentence in capsys.readouterr().err
    quoted = tmp_path / "it's"
    quoted.write_text("")
    with pytest.raises(SystemExit):
        main([str(tmp_path / "new"), "--command-config", str(quoted)])
    assert not (tmp_path / "new").exists()
