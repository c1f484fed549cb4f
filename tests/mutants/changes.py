"""The changes that `make mutants` makes to a line: by kind, found in a source's text.

A change keeps the number of lines. Comments, strings and preprocessor lines are never changed, and neither are the
helpers of seeded faults and of the model checker, which no product has in it.
"""
import re
from collections import namedtuple

# start, end: the place in the text; to: what stands there afterwards.
Change = namedtuple('Change', 'kind path line function start end to text')

HOOKS = re.compile(r'SB_FAULT|sb_model_|_fault_|_tell_model|sb_log|TEST_')
# What it does is in the order of the compiler's instructions, which a choice at run time cannot take back.
COMPILERS = ('sb_compiler_barrier',)
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


def is_in_choice(text, at):
    """Whether the colon before @at is that of `a ? b : c`, not a label's."""
    return '?' in re.split(r'[;{}]', text[:at])[-1]


def dropped_calls(text):
    """A call that is a statement: a store, a barrier or another."""
    for found in re.finditer(rf'(?:{BEGIN})((?:\w+(?:->|\.))*(\w+))\(', text):
        end = closing(text, found.end() - 1)
        if text[end:end + 1] != ';' or found[2] in ('if', 'while', 'for', 'switch', 'return', 'sizeof', 'static_assert',
                                                    'sb_assert', 'va_end', 'va_start', 'close', 'munmap', '__builtin_prefetch',
                                                    *COMPILERS) or is_in_choice(text, found.start(1)):
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


# ---- many changes in one text ----

def whole_expression(text, start, end):
    """(start, end) of the expression around a place: up to what cannot be part of it."""
    depth, place = 0, start
    while place > 0:
        letter = text[place - 1]
        if letter in ')]}':
            depth += 1
        elif letter in '([{':
            if not depth:
                break
            depth -= 1
        elif not depth and (letter in ';,?:' or (letter == '=' and text[place - 2] not in '=!<>' and text[place] != '=')
                            or re.search(r'\b(return|else|case|do)$', text[max(0, place - 8):place])):
            break
        place -= 1
    depth, last = 0, end
    while last < len(text):
        letter = text[last]
        if letter in '([{':
            depth += 1
        elif letter in ')]}':
            if not depth:
                break
            depth -= 1
        elif not depth and letter in ';,?:':
            break
        last += 1
    while text[place].isspace():
        place += 1
    return place, last


def arms(original, text, change):
    """(start, end, what stands there when the change is on, whether there is no value) of a change as a choice."""
    if not change.to.strip():
        return change.start, change.end, '', True
    if change.kind == 'a CAS made a store':
        return change.start, change.end, change.to.strip(), False
    if change.to[:4] in ('0 &&', '1 ||'):
        return change.start, change.end, change.to[0], False
    start, end = whole_expression(text, change.start, change.end)
    plain = re.sub(r'/\*.*?\*/', lambda found: ' ' * len(found[0]), original[start:end], flags=re.S)
    changed = plain[:change.start - start] + change.to + plain[change.end - start:]
    return start, end, re.sub(r'\s+', ' ', changed).strip(), False


def switched(original, numbered):
    """The text with each of the changes in it as a choice, by (number, change). The number of lines stays."""
    text = masked(original)
    chosen = sorted(((*arms(original, text, change), number) for number, change in numbered),
                    key=lambda one: (one[0], -one[1], not one[3]))

    def render(start, end, within):
        made, at = '', start
        while within:
            first = within[0]
            inside = [one for one in within[1:] if one[0] < first[1]]
            if any(one[1] > first[1] for one in inside):
                raise ValueError('changes overlap')
            within = within[1 + len(inside):]
            kept = render(first[0], first[1], inside)
            made += original[at:first[0]]
            # What has no value is a statement, of a macro too that is one.
            made += (f'({{ if (!SB_CHANGED({first[4]})) {{ {kept}; }} }})' if first[3] else
                     f'(SB_CHANGED({first[4]}) ? {first[2]} : ({kept}))')
            at = first[1]
        return made + original[at:end]

    return render(0, len(original), chosen)
