"""A run is heard while it trains: when, what is kept of it, and where it is shown."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import numpy as np
import pytest

from myxtts.pages.live import serve
from myxtts.pages.report import report_page
from myxtts.pages.report_content import content_of
from myxtts.runs.follow import RunFollower
from myxtts.runs.samples import find_sample, read_sentences
from myxtts.training.occasions import LEAST_STEPS, LONGEST_S, TIMES_IN_A_RUN, Occasions
from tests.sample_pages import sample_run, write_samples


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def due_steps(occasions, total):
    return [step for step in range(1, total + 1) if occasions.is_due(step, total=total)]


@pytest.mark.parametrize("total", [800, 2467, 3000, 100_000])
def test_a_run_of_any_length_has_a_few_occasions_with_its_end(total):
    found = due_steps(Occasions(None), total)
    apart = np.diff(sorted({0, *found, total}))
    assert len(apart) == TIMES_IN_A_RUN
    assert max(apart) - min(apart) < TIMES_IN_A_RUN


def test_what_was_heard_is_not_heard_again_where_a_run_goes_on_or_gets_longer():
    occasions = Occasions(None)
    assert not occasions.is_due(1001, total=2000)  # resumed
    assert occasions.is_due(1200, total=2000)
    assert not any(occasions.is_due(step, total=2200) for step in range(1201, 1320))
    assert occasions.is_due(1760, total=2200)


def test_a_short_run_has_its_end_only():
    assert due_steps(Occasions(None), LEAST_STEPS - 1) == []
    assert due_steps(Occasions(None), 250) == [100, 200]


def test_steps_that_were_asked_for_are_kept_whatever_the_time():
    clock = Clock()
    occasions = Occasions(7, clock=clock)
    clock.now = 10 * LONGEST_S
    assert due_steps(occasions, 30) == [7, 14, 21, 28]


def test_none_is_long_ago_unless_the_same_is_wanted_everywhere():
    for by_time, expected in ((True, [1]), (False, [])):
        clock = Clock()
        occasions = Occasions(None, by_time=by_time, clock=clock)
        clock.now = LONGEST_S + 1
        assert due_steps(occasions, 90) == expected  # and the clock begins anew


def test_a_sentence_is_heard_at_its_first_and_last_step_and_some_between(tmp_path):
    write_samples(tmp_path, text="Guten Tag.", steps=(0, 100, 200, 300, 1200))
    (tmp_path / "samples" / "step_odd").mkdir()
    first, second = read_sentences(tmp_path, most=3)
    assert (first.name, second.name) == ("sample_1", "own_text")
    assert [sample.step for sample in first.samples] == [0, 200, 1200]
    assert first.text == "Guten Tag."
    assert read_sentences(tmp_path / "elsewhere", most=3) == ()


@pytest.mark.parametrize(
    ("step", "file"),
    [
        ("..", "sample_1.wav"),
        ("0", "../../events.jsonl"),
        ("0", "sample_1.txt"),
        ("0", ".wav"),
        ("7", "sample_1.wav"),
    ],
)
def test_only_samples_are_found_by_names_from_elsewhere(tmp_path, step, file):
    write_samples(tmp_path, text="", steps=(0,))
    assert find_sample(tmp_path, step="0", file="sample_1.wav") is not None
    assert find_sample(tmp_path, step=step, file=file) is None


@pytest.mark.parametrize("lang", ["en", "fa"])
def test_the_report_begins_with_the_voice_then_loss_then_the_pipeline(tmp_path, lang):
    page = report_page(content_of(sample_run(tmp_path / "run", "my words")), lang=lang)
    assert page.count("<audio") == 6
    assert page.count("data:audio/flac;base64,") == 6
    assert page.count("data:image/png;base64,") == 2  # the newest of each sentence
    headings = {
        "en": ("Listen", "Loss", "Where a step"),
        "fa": ("گوش کنید", "زیان", "زمان یک گام"),
    }[lang]
    places = [page.index(f"<h2>{heading}") for heading in headings[:2]]
    places.append(page.index('class="verdict'))
    assert places == sorted(places)
    assert ("before training" if lang == "en" else "پیش از آموزش") in page


def test_a_run_without_samples_shows_no_player(tmp_path):
    run = sample_run(tmp_path / "run")
    for file in run.glob("samples/*/*"):
        file.unlink()
    assert "<audio" not in report_page(content_of(run), lang="en")


def test_the_live_server_gives_the_voice_and_nothing_else(tmp_path):
    run = sample_run(tmp_path / "run", "my words")
    with serve(RunFollower(run), port=0) as address:
        where = urlsplit(address)

        def ask(path):
            connection = http.client.HTTPConnection(where.hostname, where.port, timeout=10)
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read()

        status, kind, page = ask("/voice")
        assert (status, kind) == (200, "text/html; charset=utf-8")
        assert b'src="sample/500/own_text.wav"' in page
        status, kind, sound = ask("/sample/500/own_text.wav")
        assert (status, kind, sound[:4]) == (200, "audio/wav", b"RIFF")
        assert ask("/sample/500/own_text.png")[1] == "image/png"
        for path in ("/sample", "/sample/500", "/sample/500/..%2f..%2fevents.jsonl", "/sample/5/x"):
            assert ask(path)[0] == 404
