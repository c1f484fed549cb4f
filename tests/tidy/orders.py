"""Rules of memory ordering: where atomics are, and which edge each order belongs to."""
import os
import re

from tree import note

THE_ATOMICS = ('shm/base/word.h', 'shm/base/atomic.h')  # the one that is there
THE_EDGES = 'docs/ordering.md'
ORDERS = r'\bsb_(load_acquire|reaches_acquire|store_release|exchange_full|fence_full)\b'


def rule_only_word_h_names_atomics(file):
    if file.path in THE_ATOMICS or file.path.startswith('tests/'):  # the words of tests are no part of the protocols
        return
    pattern = r'\b_Atomic\b|\b__atomic\w*|\b__sync_\w+|\bstdatomic\.h\b|\batomic_\w+_explicit\b|\bmemory_order_\w+|\bvolatile\b'
    for number, match in file.matches(pattern):
        allowed = r'\bvolatile\s+sig_atomic_t\b|\b(__asm__|asm)\s+(volatile|__volatile__)\b'
        if match.group(0) == 'volatile' and re.search(allowed, file.code[number - 1]):
            continue
        yield number, f'{match.group(0)}: shared words are touched through {THE_ATOMICS[0]} alone'


def statement_start(file, index):
    """The index of the first line of the statement that has its last line at @index."""
    depth = file.code[index].count('(') - file.code[index].count(')')
    while index > 0 and file.code[index - 1].strip() and (
            depth < 0 or not file.code[index - 1].rstrip().endswith((';', '{', '}', ':'))):
        index -= 1
        depth += file.code[index].count('(') - file.code[index].count(')')
    return index


def above(file, number):
    """The statement that line @number ends in, those directly above it that order as well, and the comment above them."""
    last = number - 1
    first = statement_start(file, last)
    while first > 0 and re.search(ORDERS, file.code[first - 1]):
        first = statement_start(file, first - 1)
    while first > 0 and file.lines[first - 1].strip() and not file.code[first - 1].strip():
        first -= 1
    return ' '.join(file.lines[first:last + 1])


def rule_orders_name_their_edges(file):
    """Acquires, releases, exchanges and fences; and locked instructions, which are full barriers and both at once."""
    if not file.is_c or not file.path.startswith(('shm/', 'ring/')) or file.path in THE_ATOMICS:
        return
    for number, match in file.matches(ORDERS):
        note('acquires, releases, exchanges and fences')
        if not re.search(r'\b[RAM]:[a-z]', above(file, number)):
            yield number, f'{match.group(0)} does not name its edge (R: or A:) directly above it'
    for number, match in file.matches(r'\bsb_(add_full|or_full|and_full|cas(64|32)_full)\b'):
        note('locked instructions')
        if not re.search(r'\b[RAM]:[a-z]', above(file, number)):
            yield number, f'{match.group(0)} does not name its edge (R: or A:) directly above it'


# Lengths in shared memory that are no atomic words: of a version, of a descriptor, of a node.
PLAIN_LENGTHS = (r'\b(?:SB_SHAPE_(?:KEY|VALUE)_LEN|sb_version_size)\([^()]*->shape\)'
                 r'|\bdescriptor->(?:write_count|range_count|ranges_len)\b|\bnode->(?:key_len|height)\b')


def rule_lengths_are_loaded_once(file):
    """What is checked is what is used: so a length is loaded by sb_once(), or comes out of its check."""
    if not file.is_c or not file.path.startswith(('shm/', 'ring/', 'libclient/core/', 'agentd/')):
        return
    for number, match in file.matches(PLAIN_LENGTHS):
        line = file.code[number - 1]
        if line[:match.start()].endswith(('sb_once(', 'sb_again(')) or re.match(r' = ', line[match.end():]):
            continue
        yield number, f'{match.group(0)}: another process may write there; take what came out of the check, or sb_once()'


RELAXED = r'\bsb_(load|store)_relaxed\b'


def said_in_function(file, number):
    """The comments of the function that line @number is in, from the one above it down to that line; '' elsewhere."""
    first = number - 1
    while first > 0 and file.code[first].rstrip() != '{':
        if file.code[first].startswith('}'):
            return ''
        first -= 1
    while first > 0 and file.code[first - 1].strip():
        first -= 1
    while first > 0 and file.lines[first - 1].strip() and not file.code[first - 1].strip():
        first -= 1
    return ' '.join(text for line, kind, text in file.prose if kind == 'comment' and first < line <= number)


def rule_relaxed_says_why(file):
    """The word "Relaxed" stands beside it or before it in its function's comments, or in the comment that opens the file."""
    if not file.is_c or not file.path.startswith(('shm/', 'ring/')) or file.path in THE_ATOMICS:
        return
    opening = re.match(r'/\*.*?\*/', file.text, flags=re.S)
    for number, match in file.matches(RELAXED):
        note('relaxed accesses')
        said = said_in_function(file, number) + (opening.group(0) if opening else '')
        if not re.search(r'\brelaxed\b', said, flags=re.I):
            yield number, f'{match.group(0)} does not say why weak is enough ("Relaxed: ...")'


def rule_edges_are_listed(file):
    """With docs/ordering.md there, each edge that code names is in it."""
    if not file.is_c or not file.path.startswith(('shm/', 'ring/')):
        return
    for number, line in enumerate(file.lines, 1):
        for edge in re.findall(r'\b[RAM]:([a-z][\w-]*)', line):
            listed = listed_edges(file.root)
            if listed is not None and edge not in listed:
                yield number, f'{edge} is not in {THE_EDGES}'


# Edges of which the code has one end alone, with the reason.
ONE_ENDED = {
    'freed': 'the loads of freeing see it',
    'observers': 'no engine counts observers yet',
    'stop': 'sb_interrupt() publishes it, in libclient/core/watch.c',
}


def whole_edges_have_both_ends(files):
    """An edge that is published and that no load names, or the other way round, orders nothing. "R:x > A:y" says which
    loads see what is published there; it is no load itself."""
    published, loaded, seen_by, where = set(), set(), {}, {}
    for file in files:
        if not file.is_c or not file.path.startswith(('shm/', 'ring/')):
            continue
        for number, line in enumerate(file.lines, 1):
            for before, end, edge in re.findall(r'(> )?\b([RAM]):([a-z][\w-]*)', line):
                if not before:
                    (loaded if end == 'A' else published).add(edge)
                    where.setdefault(edge, (file.path, number))
            for edge, other in re.findall(r'\bR:([a-z][\w-]*) > A:([a-z][\w-]*)', line):
                seen_by.setdefault(edge, {edge}).add(other)
    for edge in sorted((published | loaded) - set(ONE_ENDED)):
        if edge in published and not loaded & seen_by.get(edge, {edge}):
            yield *where[edge], f'{edge} is published, and no load names it (A:)'
        if edge in loaded and edge not in published and not any(edge in others for others in seen_by.values()):
            yield *where[edge], f'{edge} is loaded, and nothing publishes it (R:)'


def listed_edges(root):
    """The names in the first column of the table in docs/ordering.md; None: there is no such file."""
    path = os.path.join(root, THE_EDGES)
    if not os.path.exists(path):
        return None
    with open(path) as ordering:
        return set(re.findall(r'^\| *([a-z][\w-]*) *\*? *\|', ordering.read(), flags=re.M)) - {'edge'}
