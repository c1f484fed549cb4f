"""Commands for gdb that read a segment: `source tests/gdb/segment.py` in a process that has one mapped, or in its core.

    sb-segment [ADDRESS]    which segment the others read: the mapping of agentd's memory, or the one at ADDRESS
    sb-superblock           its first page: geometry, clock, era, roster
    sb-records              the records in use: attached, pinned, in an operation
    sb-record SLOT          one record, with its guards, snapshots and magazine, its bell and dirty watches
    sb-key TEXT             the cell of a key, its ring, if it is watched, and its versions, newest first
    sb-cell BUCKET INDEX    the same from the cell, as `agentctl check` names it
    sb-version OFFSET       the same from a version on
    sb-unit UNIT            what a unit's word says

How it works: types and fields come from the debugging information, so a field that is added shows by itself. What is
packed into a word is taken apart here as shm/layout does it. Nothing is written, and no function of the process is called.
"""
import struct

import gdb

OFFSET = 0x0000fffffffffff0
INTENT = 1 << 63
FLAGS_OF_CELL = ((1, 'FROZEN'), (2, 'KEPT'), (12, 'WATCHED'))
FLAGS_OF_PREV = ((1, 'MARKED'), (2, 'SETTLED'), (4, 'TRIMMED'))
RING_UNOPENED = (1 << 64) - 1
FLAGS_OF_RING = ((1, 'CLEARING'), (2, 'TURN'), (4, 'CLOSED'))
STATES = ('FREE', 'CLAIMED', 'ATTACHED', 'DEAD')
CHAIN_MAX = 64


def type_of(*names):
    """The first of the structs that the program has."""
    for name in names:
        try:
            return gdb.lookup_type('struct ' + name)
        except gdb.error:
            continue
    raise gdb.GdbError(f'no struct {names[0]} here: is this a program of statebus, with its debugging information?')


def plain(value):
    """The number in a word, which is a struct of one member; else @value."""
    while value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT and len(value.type.strip_typedefs().fields()) == 1:
        value = value[value.type.strip_typedefs().fields()[0]]
    return value


def number(value):
    value = plain(value)
    return int(value) & (1 << 8 * value.type.sizeof) - 1


def flags_text(word, table):
    return ''.join(' ' + name for bits, name in table if word & bits)


class Segment:
    chosen = None

    def __init__(self, base):
        self.base = base
        if self.read(0, 8) != b'tatebus1':
            raise gdb.GdbError(f'no segment at {base:#x}')
        self.super = self.at(0, 'sb_superblock')
        self.geometry = {field.name: number(self.super['geometry'][field.name])
                         for field in self.super['geometry'].type.fields()}

    @classmethod
    def get(cls):
        if not cls.chosen:
            cls.chosen = cls(cls.find())
        return cls(cls.chosen.base)  # read anew: the process may have run

    @classmethod
    def find(cls):
        """Where all of agentd's memory is mapped."""
        base = end = None
        for line in gdb.execute('info proc mappings', to_string=True).splitlines():
            if 'memfd:statebus' in line:
                first, last = (int(field, 16) for field in line.split()[:2])
                if base is None or first == end:
                    base, end = first if base is None else base, last
        if base is not None:
            if end - base < cls(base).geometry['size']:
                raise gdb.GdbError("this process maps the first page alone, as agentd's supervisor does: look into the "
                                   'engine, or a client')
            return base
        raise gdb.GdbError('this process maps no segment of agentd: name an address, sb-segment EXPRESSION')

    def read(self, offset, size):
        return bytes(gdb.selected_inferior().read_memory(self.base + offset, size))

    def word(self, offset):
        return struct.unpack('<Q', self.read(offset, 8))[0]

    def at(self, offset, *names):
        return gdb.Value(self.base + offset).cast(type_of(*names).pointer()).dereference()

    def record(self, slot):
        if slot >= self.geometry['record_count']:
            raise gdb.GdbError(f'there are {self.geometry["record_count"]} records')
        return self.at(self.geometry['records_at'] + slot * self.geometry['record_stride'], 'sb_record')

    def cells(self):
        """(bucket, index, word) of each cell that is not empty."""
        count = self.geometry['bucket_count']
        words = struct.iter_unpack('<8Q', self.read(self.geometry['buckets_at'], 64 * count))
        for bucket, row in enumerate(words):
            for index, word in enumerate(row[:7]):
                if word:
                    yield bucket, index, word

    def version(self, offset):
        geometry = self.geometry
        if not geometry['units_at'] <= offset <= geometry['size'] - 64 or offset % 16:
            raise gdb.GdbError(f'{offset:#x} leads out of the segment, or to no block')
        return Version(self, offset)


    def ring(self, offset):
        """The ring of a key, or a further block of its slots or watchers."""
        self.version(offset)  # refuses what leads nowhere
        return self.at(offset, 'sb_ring')


class Version:
    def __init__(self, segment, offset):
        self.segment, self.offset = segment, offset
        value = segment.at(offset, 'sb_version')
        self.retire, self.birth = number(value['block']['retire']), number(value['block']['birth'])
        self.rev, self.stamp, self.prev = number(value['rev']), number(value['stamp']), number(value['prev'])
        self.node, shape = number(value['node']), number(value['shape'])
        self.value_len, self.key_len, self.kind, self.writer = shape >> 28, shape >> 17 & 0x7ff, shape >> 12 & 31, shape & 0xfff
        self.bytes_at = offset + type_of('sb_version').sizeof

    def key(self):
        return self.segment.read(self.bytes_at, self.key_len)

    def stamp_text(self):
        if self.stamp & INTENT:
            descriptor = self.stamp & OFFSET
            return f'intent of the transaction at {descriptor:#x}' if descriptor else 'aborted'
        return {0: 'not stamped yet', 1: 'placeholder'}.get(self.stamp, f'stamp {self.stamp}')

    def retire_text(self):
        if self.retire >= 0xffff0000:
            return f'FREEING by client {self.retire & 0xffff}'
        return {0: 'live', 1: 'HELD', 2: 'DYING'}.get(self.retire, f'retired in era {self.retire}')

    def show(self):
        kind = ('value', 'deleted', 'expired', 'placeholder', 'descriptor', 'ring', '?', '?')[self.kind & 7]
        print(f'  version {self.offset:#x}: rev {self.rev}, {self.stamp_text()}, {kind}, by client {self.writer}; '
              f'birth {self.birth}, {self.retire_text()}; node {self.node:#x}')
        text = self.segment.read(self.bytes_at + self.key_len, min(self.value_len, 48))
        print(f'    key {self.key()!r}, value of {self.value_len} bytes: {text!r}')
        print(f'    prev {self.prev & OFFSET:#x}{flags_text(self.prev, FLAGS_OF_PREV)}')


def show_fields(value, indent='  '):
    """Every field that is not zero, words as numbers, arrays without their zeroes."""
    for field in value.type.fields():
        inner = plain(value[field.name])
        kind = inner.type.strip_typedefs().code
        if field.name.startswith('pad') or field.name.startswith('zero'):
            continue
        if kind == gdb.TYPE_CODE_STRUCT:
            print(f'{indent}{field.name}')
            show_fields(inner, indent + '  ')
        elif kind == gdb.TYPE_CODE_ARRAY:
            first, last = inner.type.range()
            found = [(index, number(inner[index])) for index in range(first, last + 1)]
            shown = ' '.join(f'[{index}] {word:#x}' for index, word in found if word)
            print(f'{indent}{field.name} {shown}') if shown else None
        else:
            word = number(inner)
            print(f'{indent}{field.name:18} {word}' + (f' ({word:#x})' if word > 9 else ''))


def show_chain(segment, offset):
    for _ in range(CHAIN_MAX):
        if not offset:
            return
        version = segment.version(offset)
        version.show()
        offset = version.prev & OFFSET
    print(f'  ... more than {CHAIN_MAX}')


def show_watchers(ring, first, count):
    for index in range(first, first + count):
        word = number(ring['words'][index])
        if word:
            print(f'    watched by client {(word >> 48) - 1}, generation {word & 0xffffffff}: dirty bit {word >> 32 & 0xffff}')


def show_ring(segment, node):
    """The ring that a node names: what its slots say, and the watches in it and in its further blocks."""
    offset = number(segment.at(node, 'sb_node')['ring']) & OFFSET
    for block in range(CHAIN_MAX):
        if not offset:
            return
        ring = segment.ring(offset)
        slots, watchers = number(ring['slot_count']), number(ring['watcher_count'])
        if slots + watchers > segment.geometry['size'] // 8:
            raise gdb.GdbError(f'ring {offset:#x}: {slots} slots and {watchers} watchers are too many')
        state = number(ring['state'])
        hints, gone = number(ring['hints']), number(ring['gone'])
        said = f'what was superseded up to {number(ring["given"])} was given up, {number(ring["tail"])} hints so far' if hints else \
            'not opened yet' if gone == RING_UNOPENED else f'revisions up to {gone} may be gone'
        wants = number(ring['want_count'])
        print(f'  ring {offset:#x}: joined {state >> 3} times{flags_text(state, FLAGS_OF_RING)}, {said}, {slots} slots'
              if not block else f'  further {f"{slots} slots" if slots else "watchers"} {offset:#x}'
              + (f', {wants} revisions wanted' if wants else ''))
        for index in range(slots):
            word = number(ring['words'][index])
            if word and hints:
                print(f'    [{index}] cell number {word & (1 << 44) - 1}, lap {word >> 44}')
            elif word:
                print(f'    [{index}] version {word & OFFSET:#x}, turn {word >> 48 << 4 | word & 15}')
        show_watchers(ring, slots, watchers)
        offset = number(ring['more']) & OFFSET


def show_cell(segment, bucket, index, word):
    at = segment.base + segment.geometry['buckets_at'] + 64 * bucket + 8 * index
    print(f'bucket {bucket}, cell {index} at {at:#x}: tag {word >> 48:#x}, '
          f'version {word & OFFSET:#x}{flags_text(word, FLAGS_OF_CELL)}')
    if word & OFFSET:
        show_ring(segment, segment.version(word & OFFSET).node)
    show_chain(segment, word & OFFSET)


def do_segment(arguments):
    value = gdb.parse_and_eval(arguments) if arguments else None
    if value is not None and value.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY:
        value = value.address
    Segment.chosen = Segment(int(value) if value is not None else Segment.find())
    geometry = Segment.chosen.geometry
    print(f'segment at {Segment.chosen.base:#x}: {geometry["size"]} bytes, {geometry["record_count"]} records, '
          f'{geometry["bucket_count"]} buckets, {geometry["unit_count"]} units of {geometry["unit_size"]} bytes')


def do_superblock(_):
    show_fields(Segment.get().super)


def do_records(_):
    segment = Segment.get()
    roster = segment.super['roster']
    for slot in range(segment.geometry['record_count']):
        listed = number(roster[slot // 64]) >> slot % 64 & 1
        record = segment.record(slot)
        tag, pin, operation = number(record['tag']), number(record['pin']), number(record['operation'])
        if tag & 0xffffffff:
            print(f'  {slot:4} {STATES[tag & 3]:8} generation {tag >> 32}, pid {number(record["pid"])}, '
                  + ('' if listed else 'not in the roster, ')
                  + (f'pinned in era {pin >> 16}, since {pin & 0xffff} eras' if pin else 'not pinned')
                  + (f', in an operation on {operation & OFFSET:#x}' if operation else ''))


def do_record(arguments):
    segment, geometry = Segment.get(), Segment.get().geometry
    slot = int(gdb.parse_and_eval(arguments))
    record = segment.record(slot)
    show_fields(record)
    at = int(record['words'].address) - segment.base
    for what, name in (('snapshot', 'snapshot_count'), ('guard', 'guard_inline'), ('magazine', 'magazine_count'),
                       ('opened', 'snapshot_count')):
        count = geometry[name]
        found = [(index, segment.word(at + 8 * index)) for index in range(count)]
        print(f'  {what} ' + (' '.join(f'[{index}] {word:#x}' for index, word in found if word) or 'none'))
        at += 8 * count
    sleeps = number(record['sleeps'])
    print(f'  bell {number(record["bell"])}, ' + (f'asleep since {sleeps & 0xffffffff}, ' if sleeps else 'awake, ')
          + f'woken below {number(record["rung"])}')
    dirty = [64 * index + bit for index in range(record['dirty'].type.range()[1] + 1)
             for bit in range(64) if number(record['dirty'][index]) >> bit & 1]
    print('  dirty watches ' + (' '.join(str(bit) for bit in dirty) or 'none'))


def do_key(arguments):
    segment, key = Segment.get(), arguments.encode()
    for bucket, index, word in segment.cells():
        version = segment.version(word & OFFSET)
        if version.key() == key:
            show_cell(segment, bucket, index, word)
            return
    print('no cell names a version of this key')


def do_cell(arguments):
    segment = Segment.get()
    bucket, index = (int(gdb.parse_and_eval(word)) for word in gdb.string_to_argv(arguments))
    if bucket >= segment.geometry['bucket_count'] or index >= 7:
        raise gdb.GdbError('there is no such cell')
    show_cell(segment, bucket, index, segment.word(segment.geometry['buckets_at'] + 64 * bucket + 8 * index))


def do_version(arguments):
    show_chain(Segment.get(), int(gdb.parse_and_eval(arguments)))


def do_unit(arguments):
    segment, unit = Segment.get(), int(gdb.parse_and_eval(arguments))
    word = segment.word(segment.geometry['unit_words_at'] + 8 * unit)
    kind = ('FREE', 'VERSIONS', 'NODES', 'GUARDS', 'LARGE', 'PART', 'EMPTY')[min(word >> 60, 6)]
    slot = word >> 32 & 0x3fffff
    owner = f'client {slot - 1}, generation {word & 0xffffffff}' if slot else 'no client'
    if kind == 'PART':
        owner = f'head {word & 0xffffffff}'
    elif kind == 'EMPTY':
        owner = f'era {(word >> 35 & 0x7ffff) << 32 | word & 0xffffffff}'
    print(f'unit {unit} at offset {segment.geometry["units_at"] + unit * segment.geometry["unit_size"]:#x}: '
          f'{kind}, class {word >> 54 & 63}, {owner}')


class Command(gdb.Command):
    def __init__(self, name, function):
        super().__init__(name, gdb.COMMAND_DATA)
        self.function = function

    def invoke(self, arguments, _):
        try:
            self.function(arguments)
        except (gdb.MemoryError, ValueError, StopIteration) as error:
            raise gdb.GdbError(f'cannot be read: {error}')


for each in (do_segment, do_superblock, do_records, do_record, do_key, do_cell, do_version, do_unit):
    Command('sb-' + each.__name__[len('do_'):], each)
