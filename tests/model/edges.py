"""Writes a table of all accesses that order something, for model-orders: `edges.py ROOT OUT`.

Each line of the table: file, first and last line of the access, what it is, and the edges that the comment above it names.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(sys.argv[1], 'tests', 'tidy'))
from orders import THE_ATOMICS, above  # noqa: E402
from tree import File  # noqa: E402

KINDS = (('SITE_ACQUIRE', r'\bsb_(?:load|reaches)_acquire\b'), ('SITE_RELEASE', r'\bsb_store_release\b'),
         ('SITE_LOCKED', r'\bsb_(exchange|add|or|and|cas64|cas32)_full\b'))


def last_line(file, number, column):
    """The line of the parenthesis that ends the call which begins there."""
    depth, line = 0, number
    while line <= len(file.code):
        for letter in file.code[line - 1][column if line == number else 0:]:
            depth += (letter == '(') - (letter == ')')
            if letter == ')' and depth == 0:
                return line
        line += 1
    return number


def sites(root):
    for room in ('shm', 'ring'):
        for folder, _, names in sorted(os.walk(os.path.join(root, room))):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), root)
                if not name.endswith(('.c', '.h')) or path in THE_ATOMICS:
                    continue
                file = File(root, path)
                for kind, pattern in KINDS:
                    for number, match in file.matches(pattern):
                        edges = sorted(set(re.findall(r'(?<!> )\b([RAM]:[a-z][\w-]*)', above(file, number))))
                        yield path, number, last_line(file, number, match.start()), kind, edges


def main():
    root, out = sys.argv[1:]
    rows = [f'{{"{path}", {first}, {last}, {kind}, " {" ".join(edges)} "}},\n'
            for path, first, last, kind, edges in sorted(sites(root))]
    text = ('#include "tests/model/edges.h"\n\n'
            f'const struct site sites[SITES_MAX] = {{\n{"".join(rows)}}};\n'
            f'const uint32_t site_count = {len(rows)};\n')
    if os.path.exists(out):
        with open(out) as table:
            if table.read() == text:  # so that nothing is compiled anew
                return
    with open(out, 'w') as table:
        table.write(text)


main()
