"""The rule-based extractor: which words are names, and which entities one clause puts together."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.extract import NUMERAL
from judges.extract_rules import find_entities, find_pairs, rule_extractor
from judges.names import terms


def names(text, *others):
    return [entity.text for entity in find_entities([text, *others])[0] if entity.kind == "name"]


def keys(text, *others):
    return [entity.key for entity in find_entities([text, *others])[0] if entity.kind != NUMERAL]


def pairs(text):
    entities = [entity for entity in find_entities([text])[0] if entity.kind != NUMERAL]
    return [(entities[p.one].text, entities[p.other].text) for p in find_pairs(text, entities, 200)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The engineer was Edmund Harcastle of Thornley.", ["Edmund Harcastle of Thornley"]),
        (
            "In Paris he met Ludwig van Beethoven and Otto von Bismarck.",
            ["Paris", "Ludwig van Beethoven", "Otto von Bismarck"],
        ),
        ("She joined the Bank of England, then NASA and OpenAI.", ["Bank of England", "NASA", "OpenAI"]),
        ("Apple's products and AT&T's lines", ["AT&T's"]),
        ("They asked Dr. Ada Lovelace and Mr. J. K. Brown.", ["Dr. Ada Lovelace", "Mr. J. K. Brown"]),
        ("He moved to the U.S. in spring.", ["U.S"]),
        ("Water boils. Yesterday it rained. However, nothing moved.", []),
        ("According to Brenner Laboratories it is safe.", ["Brenner Laboratories"]),
        ("ALL STAFF MUST WEAR THEIR BADGES", []),
        ("La vallée d'Ashgill et L'Oréal, à Saint-Denis", ["Ashgill", "Oréal", "Saint-Denis"]),
        ("Das Tier muss einen Maulkorb tragen und der Fahrschein ist zu zeigen.", []),
        ("Der Fahrschein ist bei Frau Angela Merkel und der SPD zu haben.", ["Frau Angela Merkel", "SPD"]),
        ("Москва и Санкт-Петербург: в городе Москва", ["Москва", "Санкт-Петербург", "Москва"]),
        ("我喜欢吃苹果。 أحب القهوة", []),
        ("Ann Lee, Bob Ray and Cy Dow", ["Ann Lee", "Bob Ray", "Cy Dow"]),
    ],
)
def test_names(text, expected):
    found = names(text)
    assert found == expected


def test_a_word_at_the_beginning_is_a_name_where_a_text_writes_it_so_elsewhere():
    assert names("Quellorin helps.") == []
    assert names("Quellorin helps.", "Patients take Quellorin daily.") == ["Quellorin"]
    assert names("Lost property is kept.", "Ask the Lost Property Office about lost things.") == []


def test_a_doubtful_first_word_leaves_a_second_reading():
    [entity] = find_entities(["Store Quellorin below 25 °C."])[0][:1]
    assert entity.forms == ("store quellorin", "quellorin")
    assert keys("Volunteers Margaret Lowe and others", "The volunteers came.")[0] == "margaret lowe"


def test_names_compare_without_possessive_case_title_and_dots():
    assert keys("We saw the U.S. Army, and US Army, and Dr. Smith's dog, Prof. Smith.") == [
        *("us army", "us army", "smith", "smith")
    ]
    assert keys("It is Johnson & Johnson.") == ["johnson and johnson"]
    assert keys("It is Cafe\u0301 Blue.") == keys("It is CAF\u00c9 Blue.") == ["café blue"]


def test_values_and_names_do_not_overlap_and_keep_their_offsets():
    text = "  Intro.\n\nOn 14 May 1864 Josiah Pell paid £18,400 for COVID-19 tests. Mail to Bob at bob@x.org."
    found = find_entities([text])[0]
    assert all(text[entity.start : entity.end] == entity.text for entity in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert [entity.text for entity in found] == [
        *("14 May 1864", "Josiah Pell", "£18,400", "COVID-19", "Bob", "bob@x.org")
    ]


def test_terms_join_initials_and_keep_places():
    text = "J. K. Rowling's U.S.A. l'Italie AT&T"
    assert [term.text for term in terms(text)] == ["jk", "rowling", "usa", "italie", "at", "and", "t"]
    assert [text[t.start : t.end] for t in terms(text)][:2] == ["J. K", "Rowling's"]


def test_pairs_stand_in_one_clause():
    assert pairs("It was built by Josiah Pell in 1864. Later Bob Ray came.") == [("Josiah Pell", "1864")]
    assert pairs("We met Josiah Pell; later we met Bob Ray.") == []
    assert pairs("The tunnel was designed by Josiah Pell and the station was opened by Bob Ray.") == []
    assert pairs("He saw Ann Lee, Bob Ray and Cy Dow.") == [
        *(("Ann Lee", "Bob Ray"), ("Ann Lee", "Cy Dow"), ("Bob Ray", "Cy Dow"))
    ]
    assert pairs("Did he see Ann Lee and Bob Ray?") == [("Ann Lee", "Bob Ray")]


def test_a_pair_is_unordered_and_once():
    assert pairs("He saw Ann Lee near Bob Ray. Then he saw Bob Ray near Ann Lee.") == [("Ann Lee", "Bob Ray")]


def test_sixty_entities_stop_at_the_limit():
    text = "They are " + ", ".join(f"Name{chr(65 + n // 26)}{chr(97 + n % 26)}" for n in range(60)) + "."
    entities = find_entities([text])[0]
    assert len(entities) == 60
    assert len(find_pairs(text, entities, 201)) == 201
    assert len(find_pairs(text, entities, 10_000)) == 60 * 59 // 2


@given(st.lists(st.text(max_size=120), min_size=1, max_size=3))
def test_any_text_gives_entities_inside_it(texts):
    for text, found in zip(texts, find_entities(texts), strict=True):
        assert all(text[entity.start : entity.end] == entity.text for entity in found)
        assert all(entity.forms and all(entity.forms) for entity in found)
        assert all(one.end <= other.start for one, other in pairwise(found))
        for pair in find_pairs(text, found, 50):
            assert pair.one != pair.other
            assert pair.span.start <= found[pair.one].start < pair.span.end


@pytest.mark.parametrize(
    "piece",
    ["Ada ", "Ada of ", "U.S. ", "A&", "l'", "Ada\u0301\u200b ", "\u202eAda ", "Ada and 5 km; ", "🙂Ada ", "A. "],
)
def test_long_hostile_text_takes_seconds(piece):
    text = piece * (30_000 // len(piece))
    started = time.process_time()
    [found] = find_entities([text])
    find_pairs(text, found, 200)
    assert time.process_time() - started < 20  # seconds; it takes half a one


async def test_the_extractor_names_itself_in_its_method():
    extractor = rule_extractor()
    entities = extractor.entities.method({})
    relations = extractor.pairs.method({}, entities)
    assert entities.family == relations.family == "rules"
    assert "unordered" in relations.parameters["pairs"]
    assert relations.parameters["entities"] == entities.model_dump(mode="json")
    [reading] = await extractor.entities.entities(["We saw Paris."], {})
    assert [entity.key for entity in reading.entities] == ["paris"]
    [pairing] = await extractor.pairs.pairs([("We saw Paris.", reading.entities)], {}, 5)
    assert pairing.pairs == []
