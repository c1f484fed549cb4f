"""Rules of the layers and rooms: what includes what, and which room touches what."""
import os
import re

from tree import functions, note

# base <- ... <- upkeep is shm; shm <- ring <- { agentd | core } <- agent <- { cli, bindings, examples }.
PUBLIC = 'statebus.h'
SHM_ROOMS = ('base', 'layout', 'memory', 'keys', 'notify', 'mvcc', 'history', 'upkeep')
RING_ROOMS = ('op', 'attach', 'log', 'wal')
SHM = ['base'] + ['shm/' + room for room in SHM_ROOMS[1:]]
RING = ['ring/' + room for room in RING_ROOMS]
BELOW = {
    **{layer: set(SHM[:SHM.index(layer) + 1]) for layer in SHM},
    'shm': {*SHM, 'shm'},
    **{layer: {*SHM, 'shm', layer} for layer in RING},  # beside one another
    'ring': {*SHM, 'shm', *RING, 'ring'},
    'agentd': {*SHM, 'shm', *RING, 'ring', 'agentd'},
    'core': {*SHM, 'shm', *RING, 'ring', 'core', PUBLIC},
    'agent': {'agent', PUBLIC},
    'cli': {*SHM, 'shm', *RING, 'ring', 'core', 'agent', 'cli', PUBLIC},
    'bindings': {'agent', 'bindings', PUBLIC},
    'examples': {'agent', 'examples', PUBLIC},
    'bench': {*SHM, 'shm', *RING, 'ring', 'core', 'agent', 'bench', PUBLIC},
}
THE_WAY_DOWN = 'shm/base/result.h'  # the one file below libclient that includes statebus.h
INSTALLED = ('docs/examples/', 'tests/link/', 'bindings/')  # what sees installed headers: <statebus.h>
HEAP_ROOM = 'ring/wal/'  # reads files, not segments: what they hold is as large as it is
MODULES_MAX = 12  # of a room of shm or ring; a .c and a .h of one name are one

THE_HANDLE = 'shm/layout/handle.h'
FOR_ALL_TO_READ = {'segment', 'record', 'slot', 'generation', 'counters'}


def layer(path):
    """The layer of a file by its path; None: outside the layers (tests)."""
    if path == 'libclient/' + PUBLIC:
        return PUBLIC
    room = re.match(r'(shm|ring)/([^/]+)/', path)
    if room:
        return 'base' if room.group(2) == 'base' else f'{room.group(1)}/{room.group(2)}'
    for prefix, name in (('shm/', 'shm'), ('ring/', 'ring'), ('agentd/', 'agentd'),
                         ('libclient/agent/', 'agent'), ('libclient/', 'core'), ('cli/', 'cli'),
                         ('bindings/', 'bindings'), ('docs/examples/', 'examples'), ('bench/', 'bench')):
        if path.startswith(prefix):
            return name
    return None


def includes(file):
    """(line number, " or <, what it names) of each #include."""
    for number, line in enumerate(file.lines, 1):
        match = 'include' in line and re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if match:
            yield number, match.group(1), match.group(2)


def target_of(file, quote, name):
    """The path of the file of the tree that this includes, or None."""
    candidates = [os.path.normpath(name), 'libclient/' + name]
    if quote == '"':
        candidates.insert(0, os.path.normpath(os.path.join(os.path.dirname(file.path), name)))
    return next((path for path in candidates if file.exists(path)), None)


def rule_includes_point_down(file):
    own = layer(file.path)
    if own is None:
        return
    for number, quote, name in includes(file):
        target = target_of(file, quote, name)
        if target is None:
            if quote == '"' or name.split('/')[0] in BELOW:
                yield number, f'includes {name}, which is not there'
            continue
        theirs = layer(target)
        if theirs == PUBLIC and file.path == THE_WAY_DOWN:
            continue
        if theirs is None or theirs not in BELOW.get(own, {PUBLIC}):
            yield number, f'{own} includes {target}, of {theirs or "the tests"}: that is upwards or across'


def rule_includes_from_the_root(file):
    """"shm/base/word.h", never "word.h"; <statebus.h> in what sees installed headers alone. The file's own header comes
    first, then <...>, then "..."; a conditional begins anew. Examples stand beside their headers, as a user's program
    does."""
    if not file.path.endswith(('.c', '.h', '.cc')):
        return
    own = os.path.splitext(file.path)[0] + '.h'
    project, first = False, True
    for number, line in enumerate(file.lines, 1):
        if '#' not in line:
            continue
        if re.match(r'\s*#\s*(if|el|endif)', line):
            project = False
        match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if not match:
            continue
        quote, name = match.groups()
        if quote == '<' and name == PUBLIC and not file.path.startswith(INSTALLED):
            yield number, f'<{name}> is of what is installed: "libclient/{name}" here'
        if quote == '"' and not file.path.startswith(INSTALLED) and \
                not ('/' in name and '..' not in name and file.exists(name)):
            yield number, f'"{name}" is no path from the root'
        is_own = quote == '"' and target_of(file, quote, name) == own
        if is_own and not first:
            yield number, f'"{name}" comes first'
        if quote == '<' and project and file.path != 'bench/peer-faster.cc':  # FASTER's own come last
            yield number, f'<{name}> comes before "..."'
        project |= quote == '"' and not is_own
        first = False


def rule_shm_and_ring_stay_pure(file):
    if not file.path.startswith(('shm/', 'ring/')):
        return
    pattern = (r'\b(mi_\w+|malloc|calloc|realloc|reallocarray|strdup|free|alloca|printf|fprintf|vprintf|vfprintf|dprintf|'
               r'puts|fputs|putchar|fputc|perror|syslog|exit|_exit|abort|pthread_\w+|thrd_\w+|signal|sigaction)\s*\(')
    for number, match in file.matches(pattern):
        if file.path.startswith(HEAP_ROOM) and match.group(1) in ('malloc', 'calloc', 'realloc', 'free'):
            continue
        yield number, f'{match.group(1)}() in {file.path.split("/")[0]}: no heap, threads, printing or exits there'
    for number, line in enumerate(file.lines, 1):
        if re.match(r'\s*#\s*include\s+<(pthread|threads|stdio|mimalloc)\.h>', line):
            if 'stdio' in line and any(file.matches(r'\bv?snprintf\s*\(')):
                continue
            yield number, f'{line.strip()}: no heap, threads, printing or exits there'


def modules(files):
    """{room: {module: its files}}, a module being a path without .c or .h; layers only."""
    rooms = {}
    for file in files:
        if file.is_c and layer(file.path) not in (None, PUBLIC):
            rooms.setdefault(os.path.dirname(file.path), {}).setdefault(os.path.splitext(file.path)[0], []).append(file)
    return rooms


def whole_rooms_are_small(files):
    for room, found in modules(files).items():
        if room.startswith(('shm', 'ring')) and len(found) > MODULES_MAX:
            yield room, 0, f'{len(found)} modules, {MODULES_MAX} at most'


def reached(graph, start):
    """Where the edges of @graph lead from @start, in some steps."""
    seen, ahead = set(), list(graph[start])
    while ahead:
        module = ahead.pop()
        if module not in seen:
            seen.add(module)
            ahead += graph[module]
    return seen


def circles_of(found):
    """The sets of modules of a room each of which, in some steps, includes the others."""
    graph = {}
    for module, parts in found.items():
        targets = {os.path.splitext(target_of(file, quote, name) or '')[0]
                   for file in parts for _, quote, name in includes(file)}
        graph[module] = targets & set(found) - {module}
    circles = {module: {other for other in reached(graph, module) if module in reached(graph, other)} for module in graph}
    return sorted({tuple(sorted(circle)) for circle in circles.values() if circle})


def whole_rooms_have_no_circles(files):
    """No module includes another one of its room that, in some steps, includes it: a file in a circle is cut in the
    wrong place."""
    for room, found in modules(files).items():
        for circle in circles_of(found):
            yield circle[0], 0, 'is in a circle of includes: ' + ' '.join(map(os.path.basename, circle))


def members_of_the_handle(files):
    """(line number, member, the room that owns it or '') of each module's struct in struct sb_handle."""
    header = next((file for file in files if file.path == THE_HANDLE), None)
    inside = False
    for index, line in enumerate(header.lines if header else []):
        inside = bool(re.match(r'struct sb_handle \{', line)) or (inside and not line.startswith('}'))
        member = re.match(r'\s+struct sb_\w+ (\w+)(?:\[[^]]*\])*;(.*)', line)
        if inside and member and member.group(1) not in FOR_ALL_TO_READ:
            behind = member.group(2).strip() or (header.lines[index + 1].strip() if index + 1 < len(header.lines) else '')
            owner = re.match(r'/\*\s*([\w/]+)', behind)
            yield index + 1, member.group(1), owner.group(1) if owner else ''


def whole_handle_members(files):
    """struct sb_handle holds a struct of each module, and only the room that its comment names touches it:
    `struct sb_limbo limbo; /* memory: ... */`."""
    owners = {}
    for number, member, owner in members_of_the_handle(files):
        rooms = [room for room, names in (('shm/', SHM_ROOMS), ('ring/', RING_ROOMS)) if owner in names]
        owners[member] = rooms[0] + owner + '/' if rooms else ''
        if not rooms:
            yield THE_HANDLE, number, f'{member}: no comment behind it begins with the room that owns it'
    for file in files:
        if not owners or not file.is_c or layer(file.path) in (None, 'bench', 'examples'):
            continue
        for number, line in enumerate(file.code, 1):
            for member in re.findall(r'\bhandle\s*(?:->|\.)\s*(\w+)', line):
                if owners.get(member) and not file.path.startswith(owners[member]):
                    yield file.path, number, f'{member} of the handle is touched by {owners[member]} alone'


# Statics that do not carry their file's noun, with the reason.
EXCEPTED_STATICS = {
    'libclient/statebus.h': (r'sb_\w+', 'the public names, and what sb_auto() calls'),
    'shm/base/word.h': (r'sb_\w+', 'the order is the name'),
    'shm/layout/segment.h': (r'sb_(record|unit|block|version|node|cell|offset)_\w+', 'the noun of what an offset leads to'),
    'shm/layout/block.h': (r'sb_(stamp|version)_\w+', 'the noun of the struct'),
    'shm/keys/index.h': (r'sb_(bucket|path|probe|tag)_\w+', 'the noun of the struct'),
    'shm/memory/pin.h': (r'sb_(un)?pin(_\w+)?', 'the pair of each operation'),
    'shm/mvcc/find-plain.h': (r'sb_find_\w+', 'the inline half of find'),
    'libclient/core/txn.h': (r'sb_bus_\w+', 'sb_txn_ is for the public calls alone'),
}


def rule_statics_carry_their_file(file):
    """Of FILE.c each static function is FILE or FILE_verb, of a header sb_FILE or sb_FILE_verb, with _ for -."""
    if not file.is_c or not file.path.startswith(('shm/', 'ring/', 'agentd/', 'libclient/', 'cli/')):
        return
    stem, kind = os.path.splitext(os.path.basename(file.path))
    noun = ('sb_' if kind == '.h' else '') + stem.replace('-', '_')
    for name, number, _, before in functions(file):
        if not re.search(r'\bstatic\b', before) or re.fullmatch(noun + r'(_\w+)?', name):
            continue
        if not re.fullmatch(EXCEPTED_STATICS.get(file.path, ('', ''))[0], name):
            yield number, f'{name}() is static here: {noun}_...'
