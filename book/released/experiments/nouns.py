"""Words that the chapters look up: nouns with translations, pairs of synonyms and of antonyms."""

from __future__ import annotations

LANGUAGES = {
    "Russian": "Cyrillic",
    "Chinese": "Han",
    "Arabic": "Arabic",
    "Hindi": "Devanagari",
    "Korean": "Hangul",
    "Greek": "Greek",
}
_NOUNS = """
water вода 水 ماء पानी 물 νερό
fire огонь 火 نار आग 불 φωτιά
house дом 房子 بيت घर 집 σπίτι
mother мать 母亲 أم माँ 어머니 μητέρα
father отец 父亲 أب पिता 아버지 πατέρας
city город 城市 مدينة शहर 도시 πόλη
book книга 书 كتاب किताब 책 βιβλίο
king король 国王 ملك राजा 왕 βασιλιάς
sea море 海 بحر समुद्र 바다 θάλασσα
river река 河 نهر नदी 강 ποτάμι
mountain гора 山 جبل पहाड़ 산 βουνό
dog собака 狗 كلب कुत्ता 개 σκύλος
horse лошадь 马 حصان घोड़ा 말 άλογο
tree дерево 树 شجرة पेड़ 나무 δέντρο
milk молоко 牛奶 حليب दूध 우유 γάλα
bread хлеб 面包 خبز रोटी 빵 ψωμί
sun солнце 太阳 شمس सूर्य 태양 ήλιος
moon луна 月亮 قمر चाँद 달 φεγγάρι
war война 战争 حرب युद्ध 전쟁 πόλεμος
peace мир 和平 سلام शांति 평화 ειρήνη
school школа 学校 مدرسة स्कूल 학교 σχολείο
money деньги 钱 مال पैसा 돈 χρήμα
hand рука 手 يد हाथ 손 χέρι
eye глаз 眼睛 عين आँख 눈 μάτι
heart сердце 心 قلب दिल 심장 καρδιά
blood кровь 血 دم खून 피 αίμα
night ночь 夜 ليل रात 밤 νύχτα
day день 天 يوم दिन 날 ημέρα
year год 年 سنة साल 년 χρόνος
friend друг 朋友 صديق दोस्त 친구 φίλος
doctor врач 医生 طبيب डॉक्टर 의사 γιατρός
teacher учитель 老师 معلم शिक्षक 교사 δάσκαλος
language язык 语言 لغة भाषा 언어 γλώσσα
music музыка 音乐 موسيقى संगीत 음악 μουσική
gold золото 金 ذهب सोना 금 χρυσός
wall стена 墙 جدار दीवार 벽 τοίχος
road дорога 路 طريق सड़क 길 δρόμος
death смерть 死 موت मौत 죽음 θάνατος
love любовь 爱 حب प्यार 사랑 αγάπη
world мир 世界 عالم दुनिया 세계 κόσμος
"""
# English noun -> language -> its translation
TRANSLATIONS = {
    noun: dict(zip(LANGUAGES, others, strict=True))
    for noun, *others in (line.split() for line in _NOUNS.strip().splitlines())
}

_SYNONYMS = """
big large; small little; fast quick; begin start; end finish; happy glad; sad unhappy; smart clever;
rich wealthy; sick ill; buy purchase; sell trade; help assist; angry mad; answer reply; ask inquire;
car automobile; child kid; doctor physician; error mistake; gift present; home house; idea thought;
job occupation; law statute; lawyer attorney; road street; ship vessel; stone rock; student pupil;
talk speak; teacher instructor; trip journey; woman lady; wrong incorrect; correct right; quiet silent;
strange odd; difficult hard; simple easy; important significant; huge enormous; famous renowned;
brave courageous; near close; shout yell; allow permit; destroy ruin
"""
_ANTONYMS = """
big small; large little; fast slow; begin end; start finish; happy sad; smart stupid; rich poor;
sick healthy; buy sell; help hurt; answer question; new old; good bad; high low; hot cold;
day night; light dark; long short; wide narrow; strong weak; young elderly; true false; open closed;
first last; early late; love hate; win lose; war peace; life death; black white; man woman;
north south; east west; left right; up down; inside outside; above below; before after; more less;
male female; friend enemy; success failure; increase decrease; accept reject; arrive leave;
push pull; easy difficult
"""


def _pairs(listed: str) -> list[tuple[str, str]]:
    found = [tuple(pair.split()) for pair in listed.split(";")]
    return [(first, second) for first, second in found]


SYNONYMS, ANTONYMS = _pairs(_SYNONYMS), _pairs(_ANTONYMS)
