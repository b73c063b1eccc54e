"""Names come first in every script, even if other names share their parts."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.models import DEFAULT_MODEL
from slimdex.retrieval.encoders.opening import open_encoder
from tests.chance import CHANCE, sweep

SCRIPTS = {
    "Chinese": ("王 李 张 刘 陈", "小 明 伟 芳 娜", "{}在{}月修理了锅炉。", "请问{}最近做了什么"),
    "Korean": (
        "김 이 박 최 정",
        "민수 지영 하준 서연 현우",
        "{}는 {}월에 배를 샀다.",
        "{}가 무엇을 했나요",
    ),
    "Japanese": (
        "田中 佐藤 鈴木 高橋 山本",
        "太郎 花子 健一 美咲 直樹",
        "{}さんは{}月に船を買った。",
        "{}は何をしましたか",
    ),
    "Thai": (
        "สมชาย วิชัย มานะ สุดา นิภา",
        "ใจดี รักไทย แสงทอง ศรีสุข บุญมา",
        "{} ซื้อเรือในเดือนที่ {}",
        "{} ทำอะไรเมื่อปีที่แล้ว",
    ),
    "Arabic": (
        "محمد أحمد علي خالد مريم",
        "الخطيب العلي المصري النجار الحداد",
        "{} اشترى قاربا في الشهر {}.",
        "ماذا فعل {} في العام الماضي",
    ),
    "Hindi": (
        "राम मोहन सीता अमित सुनील",
        "शर्मा वर्मा गुप्ता सिंह पटेल",
        "{} ने {} महीने में नाव खरीदी।",
        "{} ने क्या किया था",
    ),
    "Russian": (
        "Иван Сергей Анна Мария Ольга",
        "Иванов Петров Волков Зайцев Соколов",
        "{} в {} месяце купил лодку.",
        "{} что сделал в прошлом году",
    ),
}
"""First and second parts of names, a text, and a question."""
UNSPACED = ("Chinese", "Korean", "Japanese")


@sweep
@pytest.mark.parametrize("script", CHANCE.sample([*SCRIPTS], 1))
def test_the_document_of_a_name_comes_first(script: str, tmp_path: Path) -> None:
    *parts, text, question = SCRIPTS[script]
    first, second = map(str.split, parts)
    between = "" if script in UNSPACED else " "
    names = [between.join(pair) for pair in product(first, second)]
    if script == "Chinese":  # names of three characters, whose pairs stand in other names
        names = ["".join(three) for three in product(first, second, second[:2])]
    with Collection.create(tmp_path / "x.index", open_encoder(DEFAULT_MODEL)) as collection:
        texts = [text.format(name, 1 + i % 12) for i, name in enumerate(names)]
        collection.add([{"id": str(i), "text": each} for i, each in enumerate(texts)])
        for form in ("{}", question, "who is {}"):
            hits = collection.search_many([form.format(name) for name in names], limit=1)
            is_first = [found[0].id == str(i) for i, found in enumerate(hits)]
            assert np.mean(is_first) >= 0.95, form
