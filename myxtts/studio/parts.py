"""The parts of the studio's page that change, as of now."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import psutil

from myxtts.base import base_sizes
from myxtts.pages.live import live_values
from myxtts.pages.page import Page
from myxtts.pages.studio import part, whole_page
from myxtts.pages.voice import served, voice_section
from myxtts.pipeline.hardware import HARDWARE, Card
from myxtts.studio.clips import PER_PAGE, ClipList, Show
from myxtts.studio.desk import HEAR, IMPORT, TRAIN, VOICE_NAMES, Desk
from myxtts.studio.hearing import PROGRESS_FILE as HEARING_FILE
from myxtts.studio.importing import REPORT_FILE, read_progress
from myxtts.studio.plan import plan_training
from myxtts.studio.steps import Facts, steps_of
from myxtts.studio.uploads import SOUNDS, TEXTS
from myxtts.studio.waveforms import COLUMNS, HEIGHT, outline
from myxtts.text.languages import LANGUAGES

CARDS_EVERY_S = 30.0


@dataclass(frozen=True)
class Asked:
    """What a reader looks at among the clips."""

    show: Show = "all"
    page: int = 1


class Parts:
    """Renders a desk as it is."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._cards: tuple[float, list[Card]] | None = None

    def whole(self, page: Page, asked: Asked) -> str:
        """The page as it is first sent."""
        project = self._desk.project
        return whole_page(
            page,
            self.all(page, asked),
            name=project.path.name,
            languages=LANGUAGES,
            language=project.language,
            endings=",".join((*SOUNDS, *TEXTS)),
            voice_names=VOICE_NAMES,
            asked=asked,
        )

    def all(self, page: Page, asked: Asked) -> dict[str, str]:
        """Every part by its name."""
        desk, project = self._desk, self._desk.project
        facts = Facts(
            recordings=project.list_recordings(),
            clips=desk.clips.read(),
            importing=desk.jobs.look(IMPORT),
            training=desk.jobs.look(TRAIN),
            is_training=desk.is_training,
            can_go_on=desk.can_go_on,
            followed=desk.follow(),
            spoken=desk.speaker.files(),
            is_speaking=desk.speaker.is_busy,
            exported=(project.voice / "config.json").is_file(),
        )
        shared = {"facts": facts, "commands": desk.commands(), "project": project}
        values = {
            "nav": {"steps": steps_of(facts)},
            "machine": self._machine(),
            "recordings": {"report": read_progress(project, REPORT_FILE)},
            "importing": {"progress": read_progress(project)}
            | {"report": read_progress(project, REPORT_FILE)},
            "hearing": {"hearing": desk.jobs.look(HEAR), "clips": facts.clips}
            | {"progress": read_progress(project, HEARING_FILE)},
            "clips": self._clips(facts.clips, asked),
            "train": self._train(facts),
            "listen": self._listen(page, facts),
            "voices": {"voices": [name for name, _ in desk.voices()], "names": VOICE_NAMES}
            | {"usable": facts.clips.usable[:200]},
            "spoken": {"error": desk.speaker.error, "texts": self._texts(facts)},
            "export": {},
        }
        return {name: part(page, name, **shared, **own) for name, own in values.items()}

    def _machine(self) -> dict[str, Any]:
        memory, cards = psutil.virtual_memory(), self._look_for_cards()
        return {
            "cards": cards,
            "cores": len(os.sched_getaffinity(0)),
            "memory_gb": memory.total / 2**30,
            "free_memory_gb": round(memory.available / 2**30),
            "free_disk_gb": self._desk.project.free_bytes() // 2**30,
            "base": base_sizes()[:1] if cards else base_sizes()[-1:],  # as `train` would choose
        }

    def _look_for_cards(self) -> list[Card]:
        now = time.monotonic()
        if self._cards is None or now - self._cards[0] > CARDS_EVERY_S:
            self._cards = now, HARDWARE.cards()
        return self._cards[1]

    def _clips(self, clips: ClipList, asked: Asked) -> dict[str, Any]:
        rows = clips.shown(asked.show)
        pages = max(1, -(-len(rows) // PER_PAGE))
        number = min(max(1, asked.page), pages)
        shown = rows[(number - 1) * PER_PAGE : number * PER_PAGE]
        drawn = {
            row.key: outline(self._desk.clips.sound(row)) if row.verdict.path else ""
            for row in shown
        }
        counts = {show: len(clips.shown(show)) for show in ("all", "look", "dropped")}
        return {
            "clips": clips,
            "rows": shown,
            "drawn": drawn,
            "counts": counts,
            "asked": Asked(asked.show, number),
            "pages": pages,
            "first": (number - 1) * PER_PAGE,
            "box": (COLUMNS, HEIGHT),
        }

    def _train(self, facts: Facts) -> dict[str, Any]:
        usable, followed = facts.clips.usable, facts.followed
        view = followed[1] if followed else None
        plan = plan_training(
            minutes=facts.clips.minutes,
            mean_seconds=60 * facts.clips.minutes / max(1, len(usable)),
            steps=None,
            cores=len(os.sched_getaffinity(0)),
            has_gpu=bool(self._look_for_cards()),
            measured_rate=view.steps_per_second if view and view.is_over else None,
        )
        return {"plan": plan, "view": view, "usable": len(usable)}

    def _listen(self, page: Page, facts: Facts) -> dict[str, Any]:
        if facts.followed is None:
            return {"live": None, "voice": ""}
        follower, view = facts.followed
        live = live_values(page, follower.history, view)
        return {"live": live, "voice": voice_section(page, self._desk.project.run, served)}

    def _texts(self, facts: Facts) -> list[tuple[str, str]]:
        texts = []
        for path in facts.spoken:
            try:
                text = path.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")
            except OSError:
                text = ""
            texts.append((path.name, text[:300]))
        return texts
