"""How replicas keep step is shown everywhere, and what their sums cost is calculated right."""

from __future__ import annotations

import pytest
from rich.console import Console

from myxtts.pages.live import live_part
from myxtts.pages.report import report_page
from myxtts.pages.report_content import content_of
from myxtts.pages.run_page import run_page
from myxtts.replicas.cost import Link, Measured, efficiency, fit_link, ring_s, step_s
from myxtts.runs.event_schema import is_sound
from myxtts.runs.follow import RunFollower
from myxtts.runs.history import RunHistory
from myxtts.runs.panel import render_panel
from tests.told_runs import BEGAN, event, half_a_run, started, write_events

TOLD = {"steps": 10, "work_s": [0.20, 0.30, 0.25], "sum_s": [0.15, 0.05, 0.10]}


def told(**changed):
    return event("replicas", 50, at=25.0, **{**TOLD, **changed})


def history(*events):
    found = RunHistory()
    for each in events:
        found.add(each)
    return found


def test_the_slowest_is_waited_for_and_its_own_sum_is_what_a_sum_takes():
    pace = history(*half_a_run(), told()).view(BEGAN + 25).pace
    assert [replica.waits_s for replica in pace.replicas] == pytest.approx([0.10, 0.0, 0.05])
    assert (pace.slowest.rank, pace.slowest.work_s) == (1, pytest.approx(0.30))
    assert pace.step_s == pytest.approx(0.35)
    assert pace.sum_share == pytest.approx(0.05 / 0.35)


def test_a_run_that_goes_on_alone_shows_no_replicas_any_more():
    resumed = started("resumed", 50)
    assert history(*half_a_run(), told(), resumed).pace.replicas == ()
    assert history(*half_a_run(), told(steps=0)).pace.replicas == ()


@pytest.mark.parametrize(
    "changed", [{"work_s": "x"}, {"work_s": []}, {"sum_s": [-1.0]}, {"steps": None}]
)
def test_an_odd_event_is_skipped(changed):
    assert is_sound(told())
    assert not is_sound(told(**changed))


def test_the_panel_shows_each_replica_and_the_sum():
    console = Console(width=80, record=True)
    console.print(render_panel(history(*half_a_run(), told()).view(BEGAN + 25)))
    text = console.export_text()
    for words in ("Replica 0", "waits 100 ms", "the slowest", "Sum", "14% of a step"):
        assert words in text


def test_of_many_replicas_the_panel_shows_the_slowest():
    many = {"work_s": [0.1 + 0.001 * n for n in range(100)], "sum_s": [0.05] * 100}
    console = Console(width=80, record=True)
    console.print(render_panel(history(*half_a_run(), told(**many)).view(BEGAN + 25)))
    text = console.export_text()
    assert "Replica 99" in text
    assert "Replica 91" not in text
    assert "92 quicker ones" in text


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ("Replica 1", "300 ms, the slowest", "200 ms, waits 100 ms for the slowest")),
        ("fa", ("نسخهٔ ۱", "کندترین", "جمع گرادیان‌ها")),
    ],
)
def test_live_page_and_report_show_them_in_both_languages(tmp_path, language, words):
    run = write_events(tmp_path / "run", [*half_a_run(), told()])
    follower = RunFollower(run)
    live = live_part(run_page(language), follower.history, follower.poll())
    report = report_page(content_of(run), lang=language)
    for text in words:
        assert text in live
        assert text in report


def test_a_ring_sends_twice_all_but_its_own_part():
    link = Link(bytes_per_s=1e6, latency_s=0.001)
    assert ring_s(1e6, 2, link) == pytest.approx(1.0 + 0.002)
    assert ring_s(1e6, 4, link) == pytest.approx(1.5 + 0.006)
    assert ring_s(1e6, 1, link) == 0.0
    assert step_s(0.5, 1e6, 2, link) == pytest.approx(1.502)
    assert efficiency(1.0, 1e6, 1, link) == 1.0
    assert Link.of_network(10).bytes_per_s == pytest.approx(1e9)


def test_a_link_is_found_again_from_its_times():
    link = Link(bytes_per_s=3e8, latency_s=0.002)
    sizes = [(1e5, 2), (1e6, 2), (1e7, 4)]
    found = fit_link([Measured(b, n, ring_s(b, n, link)) for b, n in sizes])
    assert found.bytes_per_s == pytest.approx(3e8, rel=1e-6)
    assert found.latency_s == pytest.approx(0.002, rel=1e-6)
    noisy = fit_link([Measured(1e6, 2, 0.02), Measured(1e7, 2, 0.5)])
    assert noisy.latency_s == 0.0
    assert noisy.bytes_per_s > 0
