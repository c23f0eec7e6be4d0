"""A run's report: complete, offline, in two languages, from real runs, old ones and profiles."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from myxtts.config.commands import training_command
from myxtts.errors import MyXTTSError
from myxtts.pages.report import report_at_the_end, write_report
from myxtts.pages.report_content import overlap_with_training, read_trace, window
from myxtts.profiling.advisor import advise
from myxtts.profiling.measurements import Profile, Span
from myxtts.runs.events import read_events
from tests.profiles import make_profile
from tests.runs import SmallModel, in_process, mel_batches
from tests.sample_pages import sample_profile
from tests.told_runs import EVEN, event, half_a_run, pipeline, started, write_events, write_trace

SECTIONS = (
    "Recommended command",
    "What overlapped with what",
    "Where a step's time goes",
    "Devices and memory",
    "How busy the devices were",
    "Memory in MB",
    "Step times",
    "Ring of ready batches",
)


def report(tmp_path, source, lang="en") -> str:
    path = tmp_path / "report.html"
    write_report(path, source, lang=lang)
    return path.read_text(encoding="utf-8")


@pytest.fixture
def run(tmp_path):
    ended = [pipeline(100, seconds=50.0), event("ended", error="")]
    folder = write_events(tmp_path / "run", [*half_a_run(), *ended])
    write_trace(folder)
    return folder


@pytest.fixture
def profile() -> Profile:
    return sample_profile()


def test_a_real_run_leaves_a_report_with_all_of_it(tmp_path, plan):
    from myxtts.training.memory_isolated_trainer import make_trainer

    config = in_process(tmp_path / "run", max_steps=12)
    with (
        make_trainer(config, model=SmallModel) as trainer,
        report_at_the_end(folder := trainer.run.path),
    ):
        trainer.train(mel_batches(12))
    page = html.unescape((folder / "report.html").read_text())
    for heading in (*SECTIONS, "Loss"):
        assert f"{heading}</h" in page, heading
    assert "simulated on CPU: no GPU was measured" in page
    assert page.count("polyline") >= 2
    told = [e for e in read_events(folder / "events.jsonl") if e["kind"] == "pipeline"]
    assert [e["step"] for e in told] == [1, 12]  # a moment apart, so only the first and the last
    assert told[-1]["values"]["total_steps"] == 12
    assert told[-1]["values"]["memory"]["model"]["limit_mb"] == 16384
    assert {span.stage for span in read_trace(folder / "trace.json")} >= {"process", "train"}


def test_a_run_that_fails_leaves_a_report_that_says_so(tmp_path, plan):
    from myxtts.training.memory_isolated_trainer import make_trainer

    def batches():
        yield from mel_batches(6)
        raise RuntimeError("the disk is gone")

    config = in_process(tmp_path / "run", max_steps=20)
    with make_trainer(config, model=SmallModel) as trainer:
        with (
            pytest.raises(RuntimeError, match="the disk is gone"),
            report_at_the_end(trainer.run.path),
        ):
            trainer.train(batches())
        page = (trainer.run.path / "report.html").read_text()
    assert "failed" in page
    assert "RuntimeError: the disk is gone" in page


def test_a_page_holds_every_section_and_needs_nothing_from_elsewhere(tmp_path, run, profile):
    for source in (run, profile):
        page = html.unescape(report(tmp_path, source))
        for heading in SECTIONS:
            assert f"{heading}</h" in page, heading
        assert "http" not in page
        assert "url(" not in page
        assert not re.search(r"<(img|link|iframe)|\ssrc=", page)
        assert 'class="limit"' in page or source is run  # the CPU has no limits to draw


def test_the_verdict_leads_to_a_command(tmp_path):
    slow = {**EVEN, "train": 0.5, "read": 0.95}
    page = report(tmp_path, write_events(tmp_path / "slow run", half_a_run(slow)))
    assert "for stage read, which is busy 95%: that is the bottleneck." in page
    command = html.unescape(re.search(r'class="command".*?<code>(.*?)</code>', page).group(1))
    assert command.startswith("myxtts train --config '")
    assert command.endswith("slow run/config.yaml' --resume --cache memory")


def test_a_profile_shows_what_to_change_and_each_layout(tmp_path, profile):
    page = report(tmp_path, profile)
    assert str(profile.diagnosis.sentence) in html.unescape(page)
    assert "--cache" not in page  # what to set comes from the advice, each with its gain
    assert "The split is 1.33 times as fast as one device." in page
    assert "myxtts train --num-workers 24" in page
    for text in (
        "×1.40",
        "more wait at once",
        "Grade: below minimum",
        "my &lt;data&gt;",
        "16x96x80",
    ):
        assert text in page


def visible_words(page: str) -> str:
    """What is read, without names of things, which stay as they are."""
    page = re.sub(r"<(style|script|code|title)\b.*?</\1>", " ", page, flags=re.S)
    text = html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<bdi.*?</bdi>", " ", page)))
    return re.sub("\u2066.*?\u2069", " ", text)


def test_persian_pages_speak_persian(tmp_path, run, profile):
    slow = [started(), *half_a_run({**EVEN, "train": 0.5, "process": 0.7})[1:]]
    failed = [*slow, event("ended", error="<b>ValueError</b>")]
    for source in (run, profile, write_events(tmp_path / "failed", failed)):
        page = report(tmp_path, source, lang="fa")
        assert '<html lang="fa" dir="rtl">' in page
        left = set(re.findall("[A-Za-z]{2,}", visible_words(page)))
        assert left <= {
            "GPU",
            "CPU",
            "MyXTTS",
            "Perfetto",
            "ui",
            "perfetto",
            "dev",
            "read",
            "process",
            "transfer",
            "train",
        }
        assert not re.search("[0-9]", visible_words(page).replace("16x", ""))
        assert "<b>ValueError" not in page
    assert "۱٫۳۳ برابر سرعت یک دستگاه" in report(tmp_path, profile, lang="fa")


def test_a_run_still_going_on_says_what_comes_at_its_end(tmp_path):
    page = report(tmp_path, write_events(tmp_path / "run", half_a_run()))
    assert "The timeline and the histogram are there once the run has ended." in page
    assert "What overlapped with what" not in page


def test_the_timeline_shows_the_last_steps_without_a_pause(tmp_path, run):
    spans = read_trace(run / "trace.json")
    late = Span("train", "busy", 40, 60.0, 60.5)  # after a long validation
    shown = window([*spans, late])
    assert {span.batch for span in shown if span.stage == "train"} == set(range(32, 40))
    assert window([]) == []


def test_overlap_is_the_share_of_training_in_which_a_stage_worked_too(run):
    overlap = overlap_with_training(read_trace(run / "trace.json"))
    assert overlap["process"] == pytest.approx(0.8)
    apart = [Span("train", "busy", 0, 0.0, 1.0), Span("process", "busy", 1, 1.0, 2.0)]
    assert overlap_with_training(apart) == {"process": 0.0}


def test_a_spoilt_timeline_is_named(tmp_path, run):
    (run / "trace.json").write_text("{")
    with pytest.raises(MyXTTSError, match=r"trace\.json cannot be read"):
        report(tmp_path, run)


def test_a_profile_with_nothing_to_change_shows_what_it_was_measured_with(tmp_path):
    well = make_profile(seconds={"train": 0.2}, data={"simulate": True})
    page = report(tmp_path, replace(well, advice=advise(well)))
    assert "No setting would make it noticeably faster. It was measured with:" in page
    assert training_command(well.config) in html.unescape(page)


def test_the_persian_page_of_a_profile_gives_the_same_verdict(tmp_path):
    compiling = make_profile(seconds={"train": 0.2}, retraces=18, rate=0.3, on_cpu=True)
    compiling = replace(compiling, advice=advise(compiling))
    page = report(tmp_path, compiling, lang="fa")
    assert "۱۸ بار بیش از نیازِ شکل‌هایش کامپایل شد" in page
    assert "دربارهٔ دو GPU چیزی نمی‌گوید" in page
