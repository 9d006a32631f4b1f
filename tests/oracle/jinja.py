#!/usr/bin/python3
"""
jinja.py - chat templates, rendered as transformers' apply_chat_template() renders them (TAP).

The texts are recorded here: those of the snippets as they are, those of templates of the forms of ten families with 50 conversations as
a checksum. Where transformers is installed (HF_PYTHON names a python that has it, as for hugging_face.py), it renders them, too.
"""
import datetime
import json
import os
import subprocess
import sys
import zlib

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common")
import chat_templates
import tap

DUMP = os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "jinja_dump")
VARIABLES = {"messages": [{"role": "user", "content": " a é\n"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "漢字"}],
             "tools": None, "add_generation_prompt": True, "n": 3, "x": 2.5, "s": "Hello, wörld", "empty": "",
             "d": {"k": 1, "items": 2, "z": [1, "2", None]}, "words": ["b", "a", "c"]}
DATE = "2025-03-09"

# A template, and its text.
SNIPPETS = [
    ('a\n  {% if true %}\n b\n  {% endif %}\nc\n',
     'a\n b\nc'),
    ('a {%- if true -%} \n b \n{%- endif -%} c',
     'abc'),
    ('a\n  {%+ if true %}b{% endif %}',
     'a\n  b'),
    ('  {# note #}\nx\n\t{#- note -#}\n y',
     'xy'),
    ("x {{- ' y ' -}} z",
     'x y z'),
    ('{% if true +%}\nx{% endif %}',
     '\nx'),
    ('a\r\nb\rc\n\n',
     'a\nb\nc\n'),
    ('  {{ 1 }}\n  {{ 2 }}\n',
     '  1\n  2'),
    ('x{#+ n +#}\ny',
     'x\ny'),
    ("{{ '}}' }}{{ '%}' }}{{ {'a': {'b': 1}}.a.b }}",
     '}}%}1'),
    ('a  {% set y = 1 %}  {% set z = 2 %}\n  b',
     'a      b'),
    ('{{ \'a\\n\\t\\\\\\\'\\"\\x41\\u00e9\\U0001F600\\d\' }}',
     'a\n\t\\\'"A\xe9\U0001f600\\d'),
    ('{{ \'a\' \'b\' "c" }}',
     'abc'),
    ("{{ [1, 2.5, 'x', none, True, [], {}] }}",
     "[1, 2.5, 'x', None, True, [], {}]"),
    ("{{ (1,) }}{{ (1, 'a') }}{{ () }}",
     "(1,)(1, 'a')()"),
    ('{{ {\'a\': \'b\\\'s\', \'c\': "q\\"\'"} }}',
     '{\'a\': "b\'s", \'c\': \'q"\\\'\'}'),
    ('{{ 1.0 }} {{ 100000000000000000.0 }} {{ 0.00001 }} {{ 0.1 + 0.2 }} {{ 123456789.125 }} {{ 1.0 * 10000000000000000 }} {{ 0.0001 }}',
     '1.0 1e+17 1e-05 0.30000000000000004 123456789.125 1e+16 0.0001'),
    ('{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 * 3 + 4 * -5 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 - -1 }}',
     '3 -4 2 -2 3.5 3.0 -14 3.0 0.5 2'),
    ("{{ 'a' + 'b' ~ 1 ~ 2 }}",
     'ab12'),
    ("{{ 'ab' * 3 }}",
     'ababab'),
    ('{{ [1] + [2, 3] }}',
     '[1, 2, 3]'),
    ('{{ true + 1 }}',
     '2'),
    ("{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ none == none }} {{ [1] == [1] }} {{ 1 != 2 }} {{ 2 >= 2 }}",
     'True False True True True False True True True True'),
    ("{{ 'l' in s }} {{ 'k' in d }} {{ 3 in [1, 2] }} {{ 3 not in [1, 2] }} {{ not 3 in [1] }}",
     'True True False True True'),
    ("{{ 1 if n == 3 else 2 }} {{ 1 if false }}|{{ 'a' if false else 'b' if false else 'c' }}",
     '1 |c'),
    ("{{ not n and 1 or 2 }} {{ 0 or 'x' }} {{ 1 and '' }}|{{ n is defined and n > 2 }}",
     '2 x |True'),
    ('{{ -n|string }} {{ -2 * n }} {{ (n|string).strip() }}',
     '-3 -6 3'),
    ('{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[:-1] }} {{ s[7:] }} {{ s[99:] }}|{{ s[-3:99] }} {{ s[::2] }}',
     'H d ell dlröw ,olleH Hello, wörl wörld |rld Hlo öl'),
    ('{{ words[0] }} {{ words[-1] }} {{ words[1:] }} {{ words[::-1] }} {{ words[::2] }} {{ words[5] }}|{{ words[-9:2] }}',
     "b c ['a', 'c'] ['c', 'a', 'b'] ['b', 'c'] |['b', 'a']"),
    ("{{ d.k }} {{ d['k'] }} {{ d['items'] }} {{ d.nope }}|{{ d['nope'] }}|{{ d.z[1] }}",
     '1 1 2 ||2'),
    ("{{ messages[0].content }}{{ messages[-1]['role'] }}",
     ' a é\nuser'),
    ("{{ ' a b '|trim }}|{{ 'xxaxx'|trim('x') }}|{{ '\xa0\u3000\xe9\u2003'|trim }}|",
     'a b|a|é|'),
    ('{{ s|length }} {{ words|count }} {{ d|length }} {{ none_such|length }}',
     '12 3 3 0'),
    ("{{ s|upper if false }}{{ 'aB'|upper }}{{ 'aB'|lower }}{{ 'aB c'|capitalize }}{{ 'ab cD'.title() }}",
     'ABabAb cAb Cd'),
    ("{{ words|join(', ') }} {{ words|join }} {{ messages|join('/', attribute='role') }}",
     'b, a, c bac user/assistant/user'),
    ("{{ words|first }} {{ words|last }} {{ []|first }}| {{ words|reverse|list }} {{ 'abc'|reverse }}",
     "b c | ['c', 'a', 'b'] cba"),
    ("{{ nope|default('x') }} {{ ''|default('x') }}|{{ ''|d('x', true) }} {{ ''|default('x', boolean=true) }}",
     'x |x x'),
    ("{{ '12'|int + 1 }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 2.9|int }} {{ '3.7'|int }}",
     '13 0 5 2 3'),
    ("{{ words|map('upper')|join }} {{ messages|map(attribute='role')|join(' ') }}",
     'BAC user assistant user'),
    ("{{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ messages|rejectattr('role', 'equalto', 'user')|list|length }} {{ messages|selectattr('nope', 'defined')|list }} {{ [0, 1, '']|select|list }} {{ [1, 2, 3]|reject('odd')|list }}",
     '2 1 [] [1] [2]'),
    ('{{ d|items|list }} {{ d.keys()|list }} {{ d.values()|list }}',
     "[('k', 1), ('items', 2), ('z', [1, '2', None])] ['k', 'items', 'z'] [1, 2, [1, '2', None]]"),
    ("{{ d.get('k') }} {{ d.get('q') }} {{ d.get('q', 'w') }}",
     '1 None w'),
    ("{{ ' x '.strip() }}|{{ ' x '.lstrip() }}|{{ ' x '.rstrip() }}|{{ 'xyx'.strip('x') }}",
     'x|x | x|y'),
    ("{{ s.startswith('He') }} {{ s.endswith('ld') }} {{ s.startswith(('a', 'H')) }} {{ s.find('w') }} {{ s.find('q') }}",
     'True True True 7 -1'),
    ("{{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ''.split(',') }} {{ 'a</t>b'.split('</t>')[-1] }}",
     "['a', 'b', '', 'c'] ['a', 'b,c'] [''] b"),
    ("{{ 'aXbX'.replace('X', 'yy') }} {{ 'aXbX'.replace('X', '', 1) }} {{ 'aXbX'|replace('X', '-') }}",
     'ayybyy abX a-b-'),
    ('{{ d|tojson }} {{ s|tojson }} {{ \'<"\\\\\\n\\t\x01\x7f>\'|tojson }} {{ 1.0|tojson }} {{ none|tojson }} {{ true|tojson }} {{ []|tojson }} {{ {}|tojson }}',
     '{"k": 1, "items": 2, "z": [1, "2", null]} "Hello, wörld" "<\\"\\\\\\n\\t\\u0001\x7f>" 1.0 null true [] {}'),
    ("{{ d|tojson(indent=2) }}\n{{ []|tojson(indent=2) }} {{ {'a': {}}|tojson(indent=0) }}",
     '{\n  "k": 1,\n  "items": 2,\n  "z": [\n    1,\n    "2",\n    null\n  ]\n}\n[] {\n"a": {}\n}'),
    ("{{ {'b': 1, 'a': [1, 2]}|tojson(sort_keys=true, separators=(',', ':')) }}",
     '{"a":[1,2],"b":1}'),
    ("{{ '\xe9\U0001f600'|tojson(ensure_ascii=true) }}",
     '"\\u00e9\\ud83d\\ude00"'),
    ("{{ n is number }}{{ n is string }}{{ s is string }}{{ d is mapping }}{{ words is iterable }}{{ words is sequence }}{{ none is none }}{{ q is undefined }}{{ q is not defined }}{{ true is boolean }}{{ 1.5 is float }}{{ 3 is odd }}{{ 4 is divisibleby 2 }}{{ 4 is divisibleby(3) }}{{ true is true }}{{ 1 is true }}{{ false is false }}{{ n is eq 3 }}{{ 'a' is in 'abc' }}{{ d.items is callable }}{{ n is integer }}{{ s is iterable }}{{ d is sequence }}{{ n is ne 3 }}",
     'TrueFalseTrueTrueTrueTrueTrueTrueTrueTrueTrueTrueTrueFalseTrueFalseTrueTrueTrueTrueTrueTrueTrueFalse'),
    ('{% for w in words %}{{ loop.index0 }}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}',
     '01TrueFalse332a;12FalseFalse321bc;23FalseTrue310a;'),
    ('{% for w in [] %}x{% else %}none{% endfor %}{% for w in nope %}{% else %}e{% endfor %}',
     'nonee'),
    ("{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'é漢' %}{{ c }}.{% endfor %}",
     "k=1,items=2,z=[1, '2', None],kitemszé.漢."),
    ("{% for w in words if w != 'a' %}{{ w }}{{ loop.last }}{% endfor %}",
     'bFalsecTrue'),
    ('{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}{{ range(2, 9, 3)|list }}{{ range(3, 0, -1)|list }}',
     '02[2, 5, 8][3, 2, 1]'),
    ("{% for a in words %}{% for b in words %}{% if b == 'a' %}{% break %}{% endif %}{{ a }}{{ b }}{% endfor %}{% endfor %}",
     'bbabcb'),
    ('{% set x = 1 %}{% for w in words %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}',
     '2221'),
    ("{% set ns = namespace(a=1, b='q') %}{% for w in words %}{% set ns.a = ns.a + 1 %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}",
     '4q'),
    ('{% if false %}a{% elif n == 3 %}b{% else %}c{% endif %}{% if 0 %}{% elif 0 %}{% else %}d{% endif %}',
     'bd'),
    ('{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, %}{{ t }}',
     '12(1,)'),
    ('{% set y %} x {{ n }}\n{% endset %}[{{ y }}]',
     '[ x 3\n]'),
    ('{% if true %}{% set q = 5 %}{% endif %}{{ q }}',
     '5'),
    ('{% generation %}a{% set q = 1 %}{% endgeneration %}{{ q }}',
     'a'),
    ("{{ dict(a=1, b='c') }}",
     "{'a': 1, 'b': 'c'}"),
    ('{{ q }}{{ q == r }}{% if q %}x{% endif %}{{ q is none }}',
     'TrueFalse'),
    ("{% for w in words %}{{ w }}{{ ',' if not loop.last }}{% endfor %}",
     'b,a,c'),
    ('{{ messages | tojson }}',
     '[{"role": "user", "content": " a é\\n"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "漢字"}]'),
    ("{{ (messages|first)['role'] }}{{ messages[1:][0].role }}",
     'userassistant'),
    ('{% for m in messages[::-1] %}{{ m.role[0] }}{% endfor %}',
     'uau'),
    ("{{ {'a': 1}.items()|list }}",
     "[('a', 1)]"),
    ('{{ not none_such }}{{ not not n }}',
     'TrueTrue'),
    ("{{ '' * 9000000000000000000 }}|{{ 'a' * -1 }}|", '||'),
    ("{{ strftime_now('%d %b %Y|%A %B %a %j %y-%m|%%') }}", '09 Mar 2025|Sunday March Sun 068 25-03|%'),
]

# A template, and the error.
REFUSED = [
    ("a\n{% macro f() %}{% endmacro %}", "line 2: statement 'macro' is not supported"),
    ("{% include 'x' %}", "line 1: statement 'include' is not supported"),
    ("{% nope %}", "line 1: unknown statement 'nope'"),
    ("{% 1 %}", "line 1: a tag without a statement"),
    ("\n\n{{ s|urlize }}", "line 3: filter 'urlize' is not supported"),
    ("{{ s is filter }}", "line 1: test 'filter' is not supported"),
    ("{{ cycler(1) }}", "line 1: function or method 'cycler' is not supported"),
    ("{{ s.format(1) }}", "line 1: function or method 'format' is not supported"),
    ("{{ words.append(1) }}", "line 1: function or method 'append' is not supported"),
    ("{% for w in words %}\n{{ loop.depth }}{% endfor %}", "line 2: 'loop.depth' is not supported"),
    ("{{ nope.x }}", "line 1: 'nope' is undefined"),
    ("{{ d.q.x }}", "line 1: 'q' is undefined"),
    ("{{ nope + 1 }}", "line 1: 'nope' is undefined"),
    ("{{ 'a' + 1 }}", "line 1: '+' of a string and a number"),
    ("{{ 1 / 0 }}", "line 1: a number is too large, or is divided by 0"),
    ("{{ 9223372036854775807 + 1 }}", "line 1: a number is too large, or is divided by 0"),
    ("{{ '%s' % 1 }}", "line 1: '%' of a string is not supported"),
    ("{{ 2 ** 3 }}", "line 1: '**' is not supported"),
    ("{{ 'é'.upper() }}", "line 1: upper() of characters beyond ASCII is not supported"),
    ("{{ strftime_now('%H') }}", "line 1: '%H' of strftime_now is not supported: only parts of the date are"),
    ("{{ s|trim(chars='x', n=1) }}", "line 1: trim has no argument 'n'"),
    ("{{ s.find('a', 1) }}", "line 1: find takes 1 argument at most"),
    ("{{ f(*words) }}", "line 1: '*' before an argument is not supported"),
    ("{% for a, b in words %}{% endfor %}", "line 1: 1 values for 2 names"),
    ("{% set x.y = 1 %}", "line 1: 'x' is not a namespace"),
    ("{% if true %}\nx", "line 2: the template ends before 'endif'"),
    ("{% for x in words recursive %}{% endfor %}", "line 1: 'for ... recursive' is not supported"),
    ("{% break %}", "line 1: 'break' outside of a loop"),
    ("x {{ 'a }}", "line 1: the string has no end"),
    ("x\n{{ 1 ", "line 2: '{{' has no '}}'"),
    ("x {# y", "line 1: the comment has no end"),
    ("{{ 1 2 }}", "line 1: expected '}}'"),
    ("{{ }}", "line 1: expected a value, not the end of the tag"),
    ("{{ [1, 2 }}", "line 1: '{{' has no '}}'"),
    ("{{ 0x1F }}", "line 1: only decimal numbers without an exponent are supported"),
    ("{{ a ? b }}", "line 1: character '?' is not supported here"),
    ("{% set y %}{% generation %}{% endgeneration %}{% endset %}", "line 1: 'generation' within 'set' is not supported"),
    ("\n{{ raise_exception('no ' ~ n) }}", "line 2: the template refuses the conversation: no 3"),
    ("{{ " + "(" * 200 + "1" + ")" * 200 + " }}", "line 1: more than 100 nested blocks and expressions"),
    ("{% if 1 %}" * 200 + "{% endif %}" * 200, "line 1: more than 100 nested blocks and expressions"),
    ("{{ 1" + " + 1" * 5000 + " }}", "line 1: an expression has more than 1000 nested parts"),
    ("{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}", "line 1: the template takes more than 2000000 steps"),
    ("{% set ns = namespace(s='a') %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
     "line 1: the template takes more than 256 MiB of memory"),
    ("{{ 'abc' * 99999999 }}", "line 1: a string is repeated too often"),
    ("{% for a in range(99999) %}{{ 'abcdefgh' * 999 }}{% endfor %}", "line 1: the text is longer than 64 MiB"),
    ("{% set ns = namespace(s=[]) %}{% for a in range(99999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s == ns.s }}",
     "line 1: a value is too large to be compared"),
    ("{% set ns = namespace(s=[]) %}{% for a in range(40) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s is eq(ns.s) }}",
     "line 1: the template takes more than 2000000 steps"),
    *(("{% set s = ('" + unit + "' * 1000) * 30000 %}{% for a in range(9999) %}{% if " + work + " %}{% endif %}{% endfor %}",
       "line 1: the template takes more than 2000000 steps")
      for unit, work in (("a", "s == s"), ("a", "s < s"), ("é", "s[0]"), ("é", "s[1:2]"), ("é", "s|length"), (" ", "s|trim"), ("a", "s.startswith(s)"),
                         ("a", "'b'.strip(s)"), ("a", "{s: 1}[s]"), ("a", "s in {s: 1}"), ("a", "{s: 1} == {s: 1}"))),
    ("{% set e = range(999)|map('string')|map('trim', '0123456789')|list %}{% for a in range(9999) %}{% if e|join %}{% endif %}{% endfor %}",
     "line 1: the template takes more than 2000000 steps"),
    ("{{ range(100001) }}", "line 1: range() of more than 100000 numbers"),
]

# The checksum of a family's texts.
RECORDED = {"chatml": 3857765136, "zephyr": 2678732120, "llama3": 1912583486, "qwen2": 200821733, "qwen3": 1649940915, "mistral":
            4022775339, "gemma": 330700168, "phi3": 1983181858, "olmo2": 350223884, "smollm": 651362828}

FAMILIES = [(name, {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": prompt, **chat_templates.SPECIALS})
            for name in chat_templates.TEMPLATES for messages, tools in chat_templates.conversations(50) for prompt in (False, True)]


def render(jobs):
    """The results of jinja_dump for (template, variables)."""
    lines = "".join(json.dumps({"template": t, "variables": v, "date": DATE}) + "\n" for t, v in jobs)
    done = subprocess.run([DUMP], input=lines.encode(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def snippets(folder):
    for (template, text), result in zip(SNIPPETS, render([(t, VARIABLES) for t, _ in SNIPPETS])):
        yield "the text of %s" % json.dumps(template[:60]), "" if result.get("text") == text else "%r, not %r" % (result, text)


def refused(folder):
    for (template, error), result in zip(REFUSED, render([(t, VARIABLES) for t, _ in REFUSED])):
        yield "refused: %s" % json.dumps(template[:60]), "" if result.get("error") == error else "%r, not %r" % (result, error)


def families(folder):
    results = render([(chat_templates.TEMPLATES[name], variables) for name, variables in FAMILIES])
    for family in chat_templates.TEMPLATES:
        mine = [r for r, (name, _) in zip(results, FAMILIES) if name == family]
        found = zlib.crc32(json.dumps([[r.get("text"), r.get("marks"), r.get("error")] for r in mine]).encode())
        yield "texts of the form of %s" % family, "" if RECORDED.get(family) == found else "checksum %d; first %r" % (found, mine[0])


def transformers_texts(folder):
    """transformers renders the same, and refuses the same snippets."""
    try:
        import transformers.utils.chat_template_utils as theirs
    except ImportError:
        yield "the texts are transformers'", tap.Skip("transformers: no such package; HF_PYTHON names a python that has it")
        return

    class Day(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromisoformat(DATE)

    theirs.datetime = Day

    def their(template, variables):
        return theirs._render_with_assistant_indices(theirs._compile_jinja_template(template), **{
            "messages": [], "tools": None, "documents": None, "add_generation_prompt": False, **variables})

    problems = [(t, their(t, VARIABLES)[0]) for t, text in SNIPPETS if their(t, VARIABLES)[0] != text]
    yield "the texts of the snippets are transformers'", str(problems) if problems else ""
    results = render([(chat_templates.TEMPLATES[name], variables) for name, variables in FAMILIES])
    for family in chat_templates.TEMPLATES:
        problem = ""
        for result, (name, variables) in zip(results, FAMILIES):
            if name != family or problem:
                continue
            text, marks = their(chat_templates.TEMPLATES[name], variables)
            marks = [[len(text[:b].encode()), len(text[:e].encode())] for b, e in marks]
            if result != {"text": text, "marks": marks}:
                problem = "%r, not %r" % (result, (text, marks))
        yield "texts of the form of %s are transformers'" % family, problem


if __name__ == "__main__":
    try:
        import transformers
    except ImportError:
        other = os.environ.pop("HF_PYTHON", None)
        if other:
            os.execv(other, [other, *sys.argv])
    sys.exit(tap.run([snippets, refused, families, transformers_texts], DUMP, sys.argv[1:]))
