"""Which of our languages a text in Latin letters is in, by the little words that every text has."""

from __future__ import annotations

import re
from collections import Counter

# The most frequent that few of the others have; a word of several languages counts for each.
FUNCTION_WORDS: dict[str, frozenset[str]] = {
    tag: frozenset(words.split())
    for tag, words in {
        "en": "the and of to is in that it was for he with you his they are this from have not "
        "at by we she which were their would been has will your",
        "es": "el la los las de que y en un una por con para es se del al lo no como pero más "
        "su muy está cuando hay mi ella este",
        "fr": "le la les des de et est un une dans que qui pour pas sur ce il elle je nous vous "
        "au avec du ne se sont mais cette son",
        "de": "der die das und ist ein eine nicht ich zu den dem mit von sich auf für es wir "
        "sie er auch wird im am des bei war haben",
        "it": "il lo la gli le di che e è un una per non con del della sono si più ma anche nel "
        "alla questo ha mi come dei",
        "pt": "o os a as de que e do da em um uma para com não por mais se na no é foi ele ela "
        "como mas dos das você está",
        "pl": "i w na z się nie do to że jest o jak ale po co tak za od był dla mnie są tego "
        "ten czy już przez tylko",
        "tr": "ve bir bu da de için çok ile ne var mi mı daha ben gibi ama o değil kadar sonra "
        "olan her şey en biz onun",
        "nl": "de het een en van ik dat is niet op te zijn in met voor die hij er aan maar om "
        "ook was je naar dit wij zij heeft",
        "cs": "a se je v na že to s z do o i jsem ale jak byl pro ten jako nebo už by jsou co "
        "po tak když není její",
        "hu": "a az és hogy nem is egy van meg de ez ha volt csak el mint már én még ki azt "
        "majd nagyon itt ott lesz vagy",
    }.items()
}
LEAST_HITS = 3
_WORD = re.compile(r"[^\W\d_]+")


def foreign_language(text: str, language: str) -> str | None:
    """The language that a text is rather in than in its own, if little words leave no doubt."""
    if language not in FUNCTION_WORDS:
        return None
    words = Counter(_WORD.findall(text.lower()))
    hits = {
        tag: sum(times for word, times in words.items() if word in known)
        for tag, known in FUNCTION_WORDS.items()
    }
    best = max(hits, key=lambda tag: hits[tag])
    sure = hits[best] >= max(LEAST_HITS, 3 * hits[language], 0.2 * words.total())
    return best if best != language and sure else None
