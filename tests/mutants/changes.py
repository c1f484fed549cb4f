"""The changes that `make mutants` makes to a line: by kind, found in a source's text.

A change keeps the number of lines. Comments, strings and preprocessor lines are never changed, and neither are the
helpers of seeded faults and of the model checker, which no product has in it.
"""
import re
from collections import namedtuple

# start, end: the place in the text; to: what stands there afterwards.
Change = namedtuple('Change', 'kind path line function start end to text')

HOOKS = re.compile(r'SB_FAULT|sb_model_|_fault_|_tell_model|sb_log|TEST_')
COMPARED = {' < ': ' <= ', ' <= ': ' < ', ' > ': ' >= ', ' >= ': ' > ', ' == ': ' != ', ' != ': ' == '}
JOINED = {' && ': ' || ', ' || ': ' && '}
# A statement begins behind one of these.
BEGIN = r'(?<=[;{})])\s*|(?<=else)\s+|(?<=do)\s+|(?<=:)\s+'


def masked(text):
    """The text with blanks instead of comments, strings and preprocessor lines, of the same length."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*'
    return re.sub(pattern, lambda found: re.sub(r'[^\n]', ' ', found[0]), text, flags=re.S | re.M)


def closing(text, at):
    """The place behind the parenthesis that closes the one at @at."""
    depth = 0
    for place in range(at, len(text)):
        depth += {'(': 1, ')': -1}.get(text[place], 0)
        if not depth:
            return place + 1
    raise ValueError('a parenthesis is not closed')


def blank(text):
    return re.sub(r'[^\n]', ' ', text)


def arguments(text):
    """The arguments of a call, of which @text is what stands between its parentheses."""
    found, depth, last = [], 0, 0
    for place, letter in enumerate(text):
        depth += {'(': 1, ')': -1, '{': 1, '}': -1, '[': 1, ']': -1}.get(letter, 0)
        if letter == ',' and not depth:
            found.append(text[last:place])
            last = place + 1
    return found + [text[last:]]


def dropped_calls(text):
    """A call that is a statement: a store, a barrier or another."""
    for found in re.finditer(rf'(?:{BEGIN})((?:\w+(?:->|\.))*(\w+))\(', text):
        end = closing(text, found.end() - 1)
        if text[end:end + 1] != ';' or found[2] in ('if', 'while', 'for', 'switch', 'return', 'sizeof', 'static_assert',
                                                    'sb_assert', 'va_end', 'va_start', 'close', 'munmap'):
            continue
        start = found.start(1)
        if found[2].startswith('sb_store_'):
            kind = 'a store dropped'
        elif re.search('barrier|fence|flush_pins', found[2]):
            kind = 'a barrier dropped'
        elif found[2] == 'memset':
            kind = 'a clearing forgotten'
        else:
            kind = 'a call dropped'
        yield kind, start, end, blank(text[start:end])


def forgotten_clearings(text):
    for found in re.finditer(rf'(?:{BEGIN})([\w\[\]>.*-]+ = (?:0|NULL|false|-1));', text):
        if not re.match(r'\w+ =', found[1]):  # a local's first value is no clearing of shared or kept state
            yield 'a clearing forgotten', found.start(1), found.end(1), blank(found[1])


def stores_for_cas(text):
    for found in re.finditer(r'\bsb_cas(?:32|64)_full\(', text):
        end = closing(text, found.end() - 1)
        given = arguments(text[found.end():end - 1])
        if len(given) == 3:
            lines = '\n' * text[found.start():end].count('\n')
            word, _, desired = (re.sub(r'\s+', ' ', argument).strip() for argument in given)
            yield 'a CAS made a store', found.start(), end, f'({{ sb_store_release({word}, {desired}); true; }}){lines}'


def conditions(text):
    for found in re.finditer(r'\b(if|while) \(', text):
        end = closing(text, found.end() - 1)
        inside = text[found.end():end - 1]
        loop = found[1] == 'while'
        behind = text[end:end + 1] == ';'
        if loop and not behind:
            continue  # without its loop: the branch kinds have enough of these
        yield ('a re-check dropped' if loop else 'a branch skipped'), found.end(), end - 1, f'0 && ({inside})'
        if not loop:
            yield 'a branch always taken', found.end(), end - 1, f'1 || ({inside})'


def replaced(text, table, kind):
    for word, other in table.items():
        for found in re.finditer(re.escape(word), text):
            yield kind, found.start(), found.end(), other


def moved_bounds(text):
    for found in re.finditer(r' ([+-]) 1\b(?!\.)', text):
        yield 'a bound moved', found.start(), found.end(), f' {found[1]} 0'
    for found in re.finditer(r'\b(count|len|size|end|max)(?=[;,)])', text):
        if text[found.start() - 1] in ' .>' and text[:found.start()].endswith((' < ', '->', ' <= ')):
            yield 'a bound moved', found.start(), found.end(), f'{found[0]} - 1'


def turned_answers(text):
    for found in re.finditer(r'\breturn (true|false);', text):
        yield 'an answer turned', found.start(1), found.end(1), 'false' if found[1] == 'true' else 'true'


def functions(text):
    """(place, name) of each function's beginning."""
    pattern = r'^(?![ \t#}/])[^\n;=]*?\b(?!__attribute__)(\w+)\([^;]*?\)\n\{'
    return [(found.start(), found[1]) for found in re.finditer(pattern, text, flags=re.M)]


def changes(path, original):
    """All changes that can be made to a source, in the order of their places."""
    text = masked(original)
    begun = functions(text)
    found = set()
    for make in (dropped_calls, forgotten_clearings, stores_for_cas, conditions, moved_bounds, turned_answers):
        found |= set(make(text))
    found |= set(replaced(text, COMPARED, 'a comparison changed')) | set(replaced(text, JOINED, 'and for or'))
    for kind, start, end, to in sorted(found, key=lambda one: (one[1], one[2], one[0])):
        before = [name for place, name in begun if place <= start]
        line = text.count('\n', 0, start) + 1
        shown = original[original.rfind('\n', 0, start) + 1:original.find('\n', end - 1) if '\n' in original[end - 1:] else None]
        # A seeded fault's helper, and what stands outside of functions, is left alone.
        if not before or HOOKS.search(before[-1]) or HOOKS.search(shown):
            continue
        yield Change(kind, path, line, before[-1], start, end, to, re.sub(r'\s+', ' ', shown).strip())


def applied(original, change):
    return original[:change.start] + change.to + original[change.end:]
