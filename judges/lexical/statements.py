"""What an answer claims: its statements, verbatim, and whether it claims anything at all."""

import re
from collections.abc import Iterator
from enum import Enum, auto
from itertools import accumulate

from judges.text import Token, content_words, each_sentence, is_content, language, normalise, words

_SPLIT_WORDS = frozenset({"and", "but"})
_SIDE_CONTENT_WORDS = 3
_VERB_LISTING = (
    "is are was were be been am isn't aren't wasn't weren't has have had hasn't haven't hadn't does do did doesn't"
    " don't didn't can could will would shall should may might must can't cannot couldn't won't wouldn't shouldn't"
    " became become becomes began begin begins begun brought bring brings built build builds came come comes"
    " chose consists contains contain drew fell felt fought found find finds flew gave give gives given goes go went"
    " gone got gets get grew grow grows grown held hold holds helps help includes include keeps kept knew know knows"
    " known leads lead led left leave leaves lies lost lose loses made make makes means meant met moves needs offers"
    " paid plays play provides provide puts put ran run runs rose said say says saw see sees seen sent serves serve"
    " sets set shows show shown sits sold spent stands stood takes take took taken tells told thinks thought think"
    " uses use wants went wins win won works work wrote write writes written lives live died owns own allows allow"
    " remains remain requires require features feature refers refer covers cover costs cost begins starts start ends"
)
_VERBS = frozenset(_VERB_LISTING.split())
_APOSTROPHES = str.maketrans("\u2019\u02bc", "''")

_SALUTATION_LISTING = (
    "hi hello hey greetings welcome thanks thank cheers bye goodbye congratulations hallo danke bonjour merci salut"
    " hola gracias"
)
_SALUTATIONS = frozenset(_SALUTATION_LISTING.split())
_SALUTATION_WORDS = 4  # "Hello, Mr Smith." greets; a longer sentence that begins so may go on to claim something
_INTERJECTION_LISTING = (
    "sorry sure okay ok yes no yeah yep nope great certainly absolutely exactly indeed right ja nein doch klar gerne"
    " oui non bien d'accord sí si claro vale"
)
_INTERJECTIONS = frozenset(_INTERJECTION_LISTING.split())
_COURTESY = re.compile(
    r"(?:good (?:morning|afternoon|evening|day|question)|(?:that's|that is|what) (?:a|an) (?:great|good|excellent)"
    r" question|you're welcome|you are welcome|(?:i )?hope (?:this|that) helps|glad to help|happy to help"
    r"|(?:please )?let me know if|feel free to (?:ask|reach)|is there anything else|nice to meet you"
    r"|guten (?:tag|morgen|abend)|gern geschehen|de rien|de nada|buen(?:os|as) (?:d[ií]as|tardes|noches))\b",
    re.IGNORECASE,
)
# Whole sentences of courtesy in languages whose function words `judges.text` does not know, or that are phrases.
_SET_PHRASE = re.compile(
    r"(?:ciao|salve|buon(?:giorno|asera)|grazie(?: mille)?|prego|mi (?:dispiace|scusi)|scusa(?:te|mi)?"
    r"|ol[áa]|oi|bo[am] (?:dia|tarde|noite)|obrigad[oa]|de nada|(?:sinto|lamento) muito|desculpe|desculpa"
    r"|goede(?:morgen|middag|navond|ndag)|goeden?dag|dank (?:je|u)(?: wel)?|bedankt|graag gedaan|het spijt (?:me|mij)"
    r"|cześć|witaj(?:cie)?|dzień dobry|dobry wieczór|dziękuję|przepraszam|przykro mi|niestety"
    r"|привет|здравствуйте?|добр(?:ый|ое|ого) (?:день|утро|вечер)|спасибо|пожалуйста|извините?|простите?|до свидания"
    r"|你好|您好|早上好|晚上好|谢谢|多谢|不客气|再见|(?:很)?抱歉|对不起|不好意思"
    r"|こんにちは|こんばんは|おはよう(?:ございます)?|ありがとう(?:ございます)?|どういたしまして|すみません"
    r"|申し訳(?:ありません|ございません)|ごめんなさい|さようなら"
    r"|مرحبا|أهلا(?: وسهلا)?|السلام عليكم|شكرا(?: لك)?|عفوا|آسف|عذرا|صباح الخير|مساء الخير|مع السلامة)"
    r"(?:\s*[,，、]?\s*\w+)?[\s.,!。！…،]*",
    re.IGNORECASE,
)

_SOURCES = r"(?:context|passages?|documents?|sources?|texts?|excerpts?|articles?|information|material|answer)"
_PREAMBLE = (
    r"(?:(?:i'm sorry|i am sorry|sorry|i apologi[sz]e|unfortunately|regrettably|honestly|actually|well|hmm|no"
    r"|leider|es tut mir leid|tut mir leid|malheureusement|désolée?|je suis désolée?|lamentablemente|lo siento"
    r"|desafortunadamente|mi dispiace|purtroppo|desculpe|infelizmente|helaas|het spijt me|przykro mi|przepraszam"
    r"|niestety|извините|простите|к сожалению|للأسف|عذرا|آسف)\b[,.:;!،]*\s+"
    r"(?:(?:but|aber|mais|pero|ma|mas|maar|ale|но|لكن|لكني)\b,?\s+)?)*"
    rf"(?:(?:based on|according to|from|given|in|within)\s(?:\w+\s){{0,4}}{_SOURCES}\b[^,]{{0,40}},\s*)?"
)
_FIND = (
    r"(?:know|find|answer|determine|tell|say|confirm|provide|see|verify|locate|give|help|conclude"
    r"|have\s(?:any|enough|sufficient|the|that|access|information|details|data))\b"
)
_ABSTENTIONS = (
    # English
    r"(?:i|we)\s(?:do not|don't|cannot|can't|could not|couldn't|did not|didn't|(?:am|was|are|were) (?:un|not )able to)"
    rf"\s(?:\w+ly\s)?{_FIND}",
    r"(?:i'm|i am|we're|we are)\s(?:(?:really|quite|afraid i'm)\s)?(?:not (?:sure|certain|aware|able to)|unsure"
    r"|unable to|uncertain|unaware)\b",
    r"i (?:have|had) (?:no|not enough|insufficient) (?:idea|information|clue|knowledge|data|details)\b",
    rf"(?:the|these|this|those|neither|none of the|no)\s(?:\w+\s){{0,3}}{_SOURCES}\s(?:\w+\s)?"
    r"(?:does not|do not|doesn't|don't|did not|didn't|fails? to)\s(?:\w+ly\s)?"
    r"(?:say|state|mention|specify|contain|provide|include|indicate|give|answer|cover|tell|address|discuss|reveal"
    r"|describe|explain)\b",
    r"(?:there is|there's|there was)\s(?:no|not enough|not any|insufficient)\s(?:\w+\s){0,2}"
    r"(?:information|mention|data|evidence|answer|details?)\b",
    rf"(?:no|not enough|insufficient)\s(?:\w+\s)?(?:information|details?|data|{_SOURCES})\s(?:\w+\s){{0,3}}"
    r"(?:available|provided|found|given|mentioned|to answer)\b",
    rf"(?:this|that|it|the answer)\s(?:is not|isn't|is nowhere|was not|wasn't|cannot be|can't be|could not be)\s"
    r"(?:\w+ly\s)?(?:stated|mentioned|specified|provided|given|covered|answered|determined|found|known|clear)\s"
    rf"(?:in|from|by|based on)\s(?:\w+\s){{0,3}}{_SOURCES}\b",
    rf"it(?:'s| is) (?:unclear|unknown|not clear|not known) from\s(?:\w+\s){{0,3}}{_SOURCES}\b",
    r"(?:(?:(?:this|that|it) )?(?:cannot|can't|could not) be (?:determined|answered|found)|not known|unknown"
    r"|no (?:idea|answer|clue)|not (?:sure|stated|mentioned|specified|provided))[.!]*$",
    # German
    r"(?:das |dies )?(?:wei(?:ß|ss) ich|ich wei(?:ß|ss)) (?:es |das |dies |leider )*nicht\b",
    r"(?:ich (?:kann|konnte)|(?:kann|konnte) ich) (?:\w+ ){0,8}(?:nicht|keine?n?) (?:\w+ ){0,6}"
    r"(?:beantworten|finden|sagen|feststellen|bestätigen|entnehmen)\b",
    r"(?:dazu|darüber|hierzu)\b.{0,60}\bkeine (?:angaben?|informationen?|auskunft)\b",
    r"(?:der|die|den|in den?|aus den?|es gibt|mir liegen)\s(?:\w+\s){0,5}"
    r"keine (?:angaben?|informationen?|aussagen?|hinweise?)\b",
    r"in (?:den?|diesen)\s(?:\w+\s){1,4}(?:steht|stehen|findet sich|finden sich|gibt es)\s(?:\w+\s){0,3}"
    r"(?:nichts|keine?)\b",
    r"ich bin (?:mir )?(?:\w+ )?nicht sicher\b",
    # French
    r"(?:je|on|nous) (?:ne |n')(?:sais|sait|savons|connais|peux|peut|pouvons|trouve|dispose|ai|avons)\b"
    r"(?: le| la)? (?:pas|aucune?)\b",
    r"(?:je ne suis|je suis) pas (?:sûre?|certaine?)\b",
    r"(?:le|les|ces|ce|aucun|aucune)\s(?:\w+\s){0,3}"
    r"(?:contexte|passages?|documents?|sources?|textes?|extraits?|informations?)\s(?:\w+\s){0,2}(?:ne|n')\s?"
    r"(?:\w+\s)?(?:pas|mentionnent?|précisent?|indiquent?|contiennent|contient|disent|dit|permet\w*)\b",
    r"il n'y a (?:pas (?:assez )?d'|aucune )information",
    # Spanish
    r"(?:yo )?no (?:lo )?(?:sé|sabemos|puedo (?:responder|encontrar|decir|confirmar|determinar|saber)|encuentro"
    r"|encontré|tengo (?:\w+ )?(?:información|datos|suficiente|idea|acceso)|dispongo)\b",
    r"no estoy segur[oa]\b",
    r"(?:el|los|las|la|estos|este|ningun[oa]?|ningún)\s(?:\w+\s){0,3}"
    r"(?:contexto|pasajes?|documentos?|fuentes?|textos?|fragmentos?|información)\s(?:\w+\s){0,2}"
    r"no\s(?:\w+\s)?(?:menciona|dice|indica|contiene|especifica|proporciona|incluye|responde)n?\b",
    r"no (?:hay|existe|se (?:encontró|proporciona)) (?:\w+ )?información\b",
    # Italian
    r"(?:io )?non (?:lo |ne )?(?:so\b|sappiamo\b|sono (?:\w+ )?sicur[oa]|(?:ho|abbiamo|dispongo di) (?:\w+ )?"
    r"(?:informazioni|dati|idea|abbastanza)|(?:posso|riesco a|sono in grado di|siamo in grado di) (?:\w+ )?"
    r"(?:risponder|dir|trovar|determinar|confermar|saper)\w*)",
    r"(?:il|i|la|le|lo|quest[aeio]|nessun\w*)\s(?:\w+\s){0,3}(?:contesto|passagg\w+|brani?o?|document[oi]|fonti?"
    r"|test[oi]|informazioni)\s(?:\w+\s){0,2}non\s(?:\w+\s)?(?:menzion|dic|indic|conten|specific|fornisc|rispond)\w+",
    r"non (?:ci sono|c'è|risultano) (?:\w+ )?informazioni\b",
    # Portuguese
    r"(?:eu )?não (?:o )?(?:sei\b|sabemos\b|encontrei\b|tenho (?:\w+ )?(?:informaç\w+|dados|certeza|ideia|acesso)"
    r"|(?:posso|consigo|é possível) (?:\w+ )?(?:responder|dizer|encontrar|determinar|confirmar|saber))",
    r"(?:o|os|a|as|est[ae]s?|nenhum\w*)\s(?:\w+\s){0,3}(?:contexto|passage(?:m|ns)|documentos?|fontes?|textos?"
    r"|trechos?|informaç\w+)\s(?:\w+\s){0,2}não\s(?:\w+\s)?(?:menciona|diz|indica|contém|especifica|fornece|inclu"
    r"|respond)\w*",
    r"não (?:há|existem?) (?:\w+ )?informaç\w+",
    # Dutch
    r"(?:dat |dit )?(?:weet ik|ik weet) (?:het |dat |dit |helaas )*niet\b",
    r"(?:ik (?:kan|kon)|(?:kan|kon) ik) (?:\w+ ){0,8}(?:niet|geen) (?:\w+ ){0,6}"
    r"(?:beantwoorden|vinden|zeggen|bepalen|bevestigen)\b",
    r"ik ben (?:er |hier )?(?:\w+ )?niet zeker\b",
    r"(?:de|het|deze|dit|in de|in het|er)\s(?:\w+\s){0,5}geen (?:informatie|gegevens|vermelding)\b",
    # Polish
    r"(?:ja )?nie (?:wiem\b|mam (?:\w+ )?(?:informacji|danych|pewności|pojęcia)|jestem pew(?:ien|na|ny)\b"
    r"|(?:mogę|potrafię|jestem w stanie) (?:\w+ ){0,2}(?:odpowiedzieć|znaleźć|powiedzieć|stwierdzić|potwierdzić))",
    r"(?:brak|nie ma) (?:\w+ ){0,2}(?:informacji|danych)\b",
    # Russian
    r"(?:я |мы )?не (?:знаю\b|знаем\b|уверен\w*|располага\w+|на(?:шёл|шел|шла)\b"
    r"|(?:могу|можем|удалось) (?:\w+ ){0,2}(?:ответить|сказать|найти|определить|подтвердить|установить))",
    r"(?:у меня |у нас |здесь |в \w+ )?нет (?:\w+ ){0,2}(?:информации|данных|сведений|ответа)\b",
    r"(?:в |во )?(?:\w+ ){0,2}(?:контекст|документ|источник|текст|отрывк|фрагмент)\w*\s(?:\w+\s){0,2}не\s(?:\w+\s)?"
    r"(?:указан|говорит|упомин|содерж|сообща|сказан)\w*",
    # Chinese
    r"(?:很?抱歉|对不起|不好意思)?[,，]?\s*(?:但是?|可是)?(?:我们?)?(?:也|真的|暂时|目前)?(?:不知道|不清楚|不太?确定|不了解"
    r"|(?:无法|不能|没办法)(?:回答|确定|判断|得知|提供|找到|确认)|没有(?:足够的?|相关的?|任何)*(?:信息|资料|数据))",
    r"(?:文中|文章|上下文|资料|段落|文档|来源|这些)[^。，]{0,12}(?:没有|并未|未)(?:提及|提到|说明|包含|给出)",
    # Japanese
    r"[^。]{0,40}(?:わかり|分かり|判り|存じ|知り)ません(?:でした)?(?:が)?[。.!]*$",
    r"[^。]{0,60}(?:お答え|回答|判断|確認|特定)(?:することは|する?ことが|が|は)?できません",
    r"[^。]{0,40}(?:情報|記載|記述)(?:が|は)(?:含まれてい|あり|記載されてい|見つかり)ません",
    # Arabic
    r"(?:أنا )?لا (?:أعرف|أعلم|أدري|(?:أستطيع|يمكنني|أقدر) (?:\w+ ){0,2}(?:الإجابة|تحديد|العثور|التأكيد|القول))",
    r"(?:أنا )?لست (?:متأكد|واثق)\w*",
    r"لا (?:توجد|يوجد|تتوفر|تتوافر) (?:\w+ )?(?:معلومات|إجابة|بيانات)",
    r"(?:النص|السياق|المقاطع|الوثائق|المصادر) لا (?:يذكر|تذكر|يحتوي|تحتوي|يحدد|تحدد)",
)
_ABSTENTION = re.compile(f"{_PREAMBLE}(?:{'|'.join(_ABSTENTIONS)})", re.IGNORECASE)
_HEDGE = re.compile(
    rf"{_PREAMBLE}(?:it (?:all )?depends|that depends|(?:it's|it is) (?:hard|difficult|impossible) to (?:say|tell|know)"
    r"|maybe|perhaps|possibly|(?:it|that) (?:could|might) be|who knows|es kommt darauf an|vielleicht|ça dépend"
    r"|cela dépend|peut-être|depende|quizás?|tal vez)\b",
    re.IGNORECASE,
)
# What may be a claim behind a hedge or a courtesy: a clause that begins with a name, an article or a pronoun.
_BREAK = re.compile(r"(?:[,;:(，；：]|\s[-–—]|[–—])\s*(?:(?:and|so|still|und|doch|et|donc|y|e)\s+)?")
_BEGINS_LISTING = (
    "the a an this that these those he she it they his her its their there one"
    " der die das den dem des ein eine einer dieser diese dieses er sie es seine ihre"
    " le la les l un une ce cet cette ces il elle ils elles on son sa ses leur leurs"
    " el los las una este esta estos estas ella ellos ellas su sus"
)
_BEGINS = frozenset(_BEGINS_LISTING.split())
_OPINION = re.compile(
    r"(?:(?:i|we) (?:would )?(?:think|believe|guess|assume|suppose|know|say)"
    r"|ich (?:glaube|denke|meine|vermute|nehme an)|je (?:crois|pense|suppose)|(?:yo )?(?:creo|pienso|supongo))\b",
    re.IGNORECASE,
)
_OF_THE_SOURCES = re.compile(
    rf"\b(?:{_SOURCES}|questions?|provided|mentioned|stated|specified|available|data|details"
    r"|kontext\w*|passagen?|dokument\w*|quellen?|texte?s?|auszüge?n?|fragen?|informationen?|angaben?"
    r"|contextes?|textes?|extraits?|informations?|contexto|pasajes?|documentos?|fuentes?|textos?|fragmentos?"
    r"|preguntas?|información)\b",
    re.IGNORECASE,
)
_LIST = re.compile(r"\b(?:or|nor|and|oder|noch|und|ou|ni|et|o|u|y)\b", re.IGNORECASE)
_SPEAKERS = frozenset(("i", "i'm", "we", "ich", "wir", "je", "nous", "yo"))
_CLAUSE = 200  # characters of it that are looked at
_CLAIM_WORDS, _CLAIM_WORDS_WITHOUT_VERB = 2, 3
_HEDGE_WORDS = 8
_TURN_CONTENT_WORDS = 2
_TURN = re.compile(r"\b(?:but|however|though|although|aber|jedoch|mais|cependant|pero|aunque)\b", re.IGNORECASE)


class _Kind(Enum):
    """What a sentence of an answer does."""

    QUESTION = auto()
    ABSTENTION = auto()
    COURTESY = auto()
    ELLIPSIS = auto()  # no word that carries content: an answer only together with its question ("Yes.", "It is.")
    HEDGE = auto()
    CLAIM = auto()


def statements(answer: str) -> list[str]:
    """The claims of an answer in reading order, each a verbatim piece of it.

    One statement a sentence, split at ";" and at "and" or "but" where both sides have a verb-like word and at
    least three content words. Questions, greetings, sentences without a content word ("It is.") and sentences
    that decline to answer claim nothing and are left out; an answer of nothing else has no statements.
    """
    return [
        clause
        for sentence, kind in _read(answer)
        if kind in (_Kind.CLAIM, _Kind.HEDGE)
        for part in re.split("[;；]", sentence)
        for clause in _clauses(part)
    ]


def abstains(answer: str) -> bool:
    """Whether the answer declines to answer: it says so, and makes no statement beside that.

    Knows phrases of the languages whose claims are judged (`judges.languages`); greetings and questions do not count
    either way.
    """
    declines = False
    for _, kind in _read(answer):
        if kind in (_Kind.CLAIM, _Kind.HEDGE):
            return False
        declines |= kind is _Kind.ABSTENTION
    return declines


def only_courtesies(answer: str) -> bool:
    """Whether the answer is nothing but questions and greetings. Not "Yes.", which answers a question."""
    kinds = {kind for _, kind in _read(answer)}
    return bool(kinds) and kinds <= {_Kind.QUESTION, _Kind.COURTESY}


def noncommittal(answer: str) -> bool:
    """Whether nothing in the answer commits to anything: it abstains or only hedges ("It depends.")."""
    kinds = {kind for _, kind in _read(answer)}
    return _Kind.CLAIM not in kinds and not kinds.isdisjoint({_Kind.ABSTENTION, _Kind.HEDGE})


def _read(answer: str) -> Iterator[tuple[str, _Kind]]:
    for start, end in each_sentence(answer):
        yield answer[start:end], _kind(answer[start:end])


def _kind(sentence: str) -> _Kind:
    plain = sentence.translate(_APOSTROPHES)
    if plain.rstrip(" \"'”»)]」』").endswith(("?", "？", "؟")):
        return _Kind.QUESTION
    if _is_abstention(plain):
        return _Kind.ABSTENTION
    if (courtesy := _courtesy(plain)) is not None:
        return courtesy
    if _HEDGE.match(plain) and len(words(plain)) <= _HEDGE_WORDS:
        return _Kind.HEDGE
    return _Kind.CLAIM


def _is_abstention(plain: str) -> bool:
    found = _ABSTENTION.match(plain)
    if found is None or _claims_after(plain, found.end()):
        return False
    # "I am not sure, but it was founded in 1920" does answer.
    turn = _TURN.search(plain, found.end())
    if turn is None:
        return True
    rest = plain[turn.end() :].lstrip(" ,")
    return len(content_words(rest)) < _TURN_CONTENT_WORDS or _ABSTENTION.match(rest) is not None


def _claims_after(plain: str, start: int) -> bool:
    """Whether a clause behind the phrase that ends at `start` claims something: "I cannot say, Roger Quill built it".
    Not a list of what is unknown ("the date, the founder or the place"), nor what is said of the sources."""
    spoken = language(plain)
    return any(_claims(plain[found.end() : found.end() + _CLAUSE], spoken) for found in _BREAK.finditer(plain, start))


def _claims(clause: str, spoken: str | None) -> bool:
    if opinion := _OPINION.match(clause):
        clause = clause[opinion.end() :].lstrip(" ,")
    first = next(iter(words(clause)), None)
    if first is None or clause[: first.start].strip(" \"'“«¿¡"):
        return False
    if not (opinion or first.text[0].isupper() or normalise(first.text).partition("'")[0] in _BEGINS):
        return False
    if _OF_THE_SOURCES.search(clause) or _ABSTENTION.match(clause):
        return False
    if normalise(first.text) in _SPEAKERS:
        return False
    tokens = words(clause)
    content = sum(is_content(token.text, spoken) for token in tokens)
    if content >= _CLAIM_WORDS and any(map(_verb_like, tokens)):
        return True
    return content >= _CLAIM_WORDS_WITHOUT_VERB and not _LIST.search(clause)


def _courtesy(plain: str) -> _Kind | None:
    polite = _COURTESY.match(plain)
    if (polite and not _claims_after(plain, polite.end())) or _SET_PHRASE.fullmatch(plain):
        return _Kind.COURTESY
    said = [normalise(token.text) for token in words(plain)]
    if said[0] in _SALUTATIONS:
        return _Kind.COURTESY if len(said) <= _SALUTATION_WORDS else None
    spoken = language(plain)
    carries = any(is_content(word, spoken) and word not in _INTERJECTIONS for word in said)
    return None if carries else _Kind.ELLIPSIS


def _clauses(part: str) -> Iterator[str]:
    tokens = words(part)
    # Counts up to each token, so that looking at both sides of every "and" costs one pass.
    verbs = list(accumulate(map(_verb_like, tokens), initial=0))
    contents = list(accumulate((is_content(token.text) for token in tokens), initial=0))

    def stands_alone(first: int, end: int) -> bool:
        return verbs[end] > verbs[first] and contents[end] - contents[first] >= _SIDE_CONTENT_WORDS

    start = first = 0
    for index, token in enumerate(tokens):
        if (
            normalise(token.text) in _SPLIT_WORDS
            and stands_alone(first, index)
            and stands_alone(index + 1, len(tokens))
        ):
            yield part[start : token.start].strip(" ,\t\n")
            first = index + 1
            start = tokens[first].start
    if words(rest := part[start:].strip()):
        yield rest


def _verb_like(token: Token) -> bool:
    word = normalise(token.text)
    return word in _VERBS or (len(word) >= 5 and word.endswith("ed"))
