"""Rules of loops: each loop that gives up after a number of rounds says what becomes of the rest.

A comment "Bound: ENDING. Why." stands directly above such a loop, or above the line that counts; docs/loops.md lists them all.
"""
import os
import re

from tree import functions, note

THE_LOOPS = 'docs/loops.md'
THE_STEPS = 'shm/layout/damage.h'  # what counts steps for the others
ENDINGS = {
    'result': 'the caller is told',
    'duty': 'another actor, or a later call, does the rest',
    'slice': 'the caller goes on from there',
    'damage': 'only a damaged segment comes so far: it is noted, and the call answers so',
}
NEAR = 10  # lines from the comment to the line that counts
WORDS = '(?:rounds|steps|tries|attempts|beginnings)'
COUNTS = (r'\bsb_damage_step\(|\b\w*(?:ROUNDS|STEPS|TRIES|ATTEMPTS|BEGINNINGS|DEPTH)_MAX\b'
          rf'|\b{WORDS} *(?:<|>|==|--)|--\w*\.?{WORDS}\b|\b{WORDS}\+\+ *(?:<|>|==)')
MARK = r'\bBound:\s+(?:\*\s+)?(\w+)\.'


def is_bounded_code(file):
    return (file.is_c and file.path.startswith(('shm/', 'ring/', 'libclient/core/', 'agentd/')) and file.path != THE_STEPS)


def marks(file):
    """(line, ending) of each mark."""
    return [(file.text.count('\n', 0, match.start()) + 1, match.group(1)) for match in re.finditer(MARK, file.text)]


def rule_loops_name_their_endings(file):
    if not is_bounded_code(file):
        return
    found = marks(file)
    for number, ending in found:
        if ending not in ENDINGS:
            yield number, f'{ending} is no ending: ' + ', '.join(ENDINGS)
    for number, match in file.matches(COUNTS):
        if re.match(r'\s*(#|static_assert)', file.code[number - 1]):
            continue
        note('loops with a bound')
        if not any(number - NEAR <= line <= number for line, _ in found):
            yield number, f'{match.group(0)}: no "Bound: ENDING." says above it what becomes of the rest'


def listed_loops(root):
    """{(file, function, ending): line} of the table in docs/loops.md; None: there is no such file."""
    path = os.path.join(root, THE_LOOPS)
    if not os.path.exists(path):
        return None
    with open(path) as loops:
        rows = [(number, re.match(r'\| *`([\w./-]+)` *\| *`(\w+)\(\)` *\| *(\w+) *\|', line))
                for number, line in enumerate(loops, 1)]
    return {row.groups(): number for number, row in rows if row}


def whole_loops_are_listed(files):
    root = files[0].root if files else '.'
    listed = listed_loops(root)
    if listed is None:
        return
    there = {}
    for file in files:
        if not is_bounded_code(file):
            continue
        ends = [(start + count, name) for name, start, count, _ in functions(file)]
        for number, ending in marks(file):
            name = next((name for end, name in ends if number < end), None)
            if ending in ENDINGS:
                there[(file.path, name, ending)] = number
    for (path, name, ending), number in sorted(there.items(), key=str):
        if (path, name, ending) not in listed:
            yield path, number, f'{name}() with the ending "{ending}" is not in {THE_LOOPS}'
    for row, number in listed.items():
        if row not in there:
            yield THE_LOOPS, number, f'{row[1]}() of {row[0]} has no bound with the ending "{row[2]}"'
