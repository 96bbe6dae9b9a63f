"""The scripts of explorers, players and maps, which share one page of the book."""

import re
from collections import Counter

from embviz.view.pages import map_script, script


def test_scripts_that_share_a_page_declare_each_name_once():
    code = script("explorer.js") + script("player.js") + map_script()
    declared = re.findall(r"^(?:async )?(?:const|let|function\*?|class) (\w+)", code, re.MULTILINE)
    assert len(declared) > 20
    assert [name for name, times in Counter(declared).items() if times > 1] == []
