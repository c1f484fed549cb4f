"""A bus on a real ext4 on a disk that does what it is told: agentd, ext4, a loop device, and below it a disk that fails, is slow or loses
power (faulty-disk.c).

Always true: a test that fails leaves nothing: mounts are in a namespace of their own, and each loop device goes with its mount.
"""
import atexit
import ctypes
import errno
import fcntl
import functools
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from agentctl import Skip, expect, need
from durable import Durable, within

SEED = int(os.environ.get('SB_SEED') or time.time_ns() % 1000000)
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
CLONE_NEWNS = 0x20000
LOOP_CONFIGURE, LOOP_CTL_GET_FREE = 0x4C0A, 0x4C82
LOOP_AUTOCLEAR, LOOP_DIRECT_IO = 4, 16
LOOP_CONFIG = '=II52xI176x64x'  # struct loop_config: the file, the size of blocks, and of its struct loop_info64 the flags
DISK_BYTES = 256 << 20
FILES_MAX = 6  # of 16 MiB, before a round
BIG = 200000  # bytes of a value
CAUSES = (b'Input/output error', b'No space left on device', b'Read-only file system')
chance = random.Random(SEED)


def call(*words, codes=(0,)):
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode in codes, (words, ended)
    return ended.stdout.strip()


@functools.cache
def leave_mounts():
    """From here on what is mounted is seen by this process and its children alone, and goes with them."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNS) or \
            subprocess.run(['mount', '--make-rprivate', '/'], capture_output=True, check=False).returncode:
        raise Skip('mounts of its own are not permitted here')


def need_all():
    """What a disk of its own takes."""
    if os.geteuid() != 0:
        raise Skip('a disk of its own needs root')
    for path in '/dev/fuse', '/dev/loop-control':
        if not os.path.exists(path):
            raise Skip(f'there is no {path}')
    for program in 'mkfs.ext4', 'e2fsck', 'mount', 'umount':
        need(program)


class Disk:
    """A disk that fails when it is told to, the ext4 on it, mounted, and a bus in that."""

    def __init__(self, size=DISK_BYTES, features='^resize_inode', errors='continue'):
        need_all()
        leave_mounts()
        self.directory = tempfile.mkdtemp(prefix='sb-ext4-')
        self.below, self.mounted = os.path.join(self.directory, 'below'), os.path.join(self.directory, 'mounted')
        self.program = self.bus = self.options = None
        atexit.register(self.close)  # if a signal comes before the test has it
        try:
            self.make(size, features, errors)
        except BaseException:
            self.close()
            raise

    def make(self, size, features, errors):
        os.mkdir(self.below)
        os.mkdir(self.mounted)
        backing = os.path.join(self.directory, 'backing')
        with open(backing, 'wb') as file:
            file.truncate(size)
        self.program = subprocess.Popen([os.environ['FAULTY_DISK'], backing, self.below], stderr=subprocess.PIPE, text=True)
        if not within(20, lambda: os.path.exists(os.path.join(self.below, 'disk')) or self.program.poll() is not None) or \
                self.program.poll() is not None:
            raise Skip('no FUSE file system can be mounted here: ' + self.program.stderr.read().strip())
        journal = [] if '^has_journal' in features else ['-J', 'size=4']
        self.options = f'errors={errors}' + (',commit=600' if journal else '')
        call('mkfs.ext4', '-q', '-F', '-b', '4096', '-N', '256', '-m', '0', '-O', features, *journal,
             '-E', 'nodiscard,lazy_itable_init=0,lazy_journal_init=0', os.path.join(self.below, 'disk'))
        self.mount()
        self.bus = Durable(os.path.join(self.mounted, 'bus'))

    def attach(self):
        """Return: the descriptor of a loop device on the disk. It goes when that is closed and nothing is mounted from it."""
        disk = os.open(os.path.join(self.below, 'disk'), os.O_RDWR)
        control = os.open('/dev/loop-control', os.O_RDWR)
        config = struct.pack(LOOP_CONFIG, disk, 0, LOOP_AUTOCLEAR | LOOP_DIRECT_IO)
        loop = None
        try:
            while loop is None:
                number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
                loop = os.open(f'/dev/loop{number}', os.O_RDWR)
                try:
                    fcntl.ioctl(loop, LOOP_CONFIGURE, config)
                except OSError as why:
                    os.close(loop)
                    loop = None
                    if why.errno != errno.EBUSY:  # another process has it now
                        raise
        except OSError as why:
            raise Skip(f'no loop device can be had here: {why}') from why
        finally:
            os.close(control)
            os.close(disk)
        return loop

    def mount(self):
        """Check what is there, as at a start of the machine, and mount it. Nothing but agentd's calls has ext4 commit."""
        call('e2fsck', '-fy', os.path.join(self.below, 'disk'), codes=(0, 1))
        loop = self.attach()
        try:
            call('mount', '-t', 'ext4', '-o', self.options, os.readlink(f'/proc/self/fd/{loop}'), self.mounted)
        finally:
            os.close(loop)

    def tell(self, *words):
        with open(os.path.join(self.below, 'control'), 'w', encoding='ascii') as file:
            file.write(' '.join(map(str, words)) + '\n')

    def counts(self):
        with open(os.path.join(self.below, 'control'), encoding='ascii') as file:
            words = file.read().split()
        return dict(zip(words[::2], map(int, words[1::2])))

    def kill(self, power):
        """End agentd, and the machine if @power is to fail, and go on as behind a start of it, with a disk that is well."""
        self.bus.kill_all()
        if power:
            self.tell('off', chance.choice((0, chance.randrange(1, 1 << 32))))
        # What a killed process had open goes a moment behind it.
        assert within(20, lambda: not subprocess.run(['umount', self.mounted], capture_output=True, check=False).returncode)
        self.tell('on')
        self.tell('count')
        self.mount()

    def close(self):
        """Leave nothing. No signal ends it halfway."""
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        if os.path.exists(self.directory):
            self.close_all()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def close_all(self):
        if self.bus and self.program.poll() is None:
            for kind in 'write', 'fsync':
                self.tell('slow', kind, 0)
        if self.bus:
            self.bus.end()
        for path in self.mounted, self.below:
            if os.path.ismount(path) and not within(5, lambda where=path: not subprocess.run(
                    ['umount', where], capture_output=True, check=False).returncode):
                call('umount', '-l', path)
        if self.program:
            if not within(5, lambda: self.program.poll() is not None):
                self.program.kill()
            self.program.wait()
            self.program.stderr.close()
        shutil.rmtree(self.directory)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Writer:
    """Writes to a bus, one behind the other, and knows what must be there behind a start: all up to some write, which is not before
    the last that was acknowledged."""

    def __init__(self, disk, io='auto', more=()):
        self.disk, self.bus, self.io, self.more = disk, disk.bus, io, more
        self.made, self.durable = [], 0
        self.refused = self.acknowledged = self.rounds = self.failed = 0
        self.start()

    def start(self, io=None):
        assert self.bus.start('--flush-ms', '5', '--checkpoint-bytes', '24M', '--io', io or self.io, *self.more, size='16M'), \
            self.bus.said

    def write(self, *more, size=0):
        """Return: what agentctl answered."""
        number = len(self.made)
        key, value = f'key{number % 7}', f'{number} '.ljust(size, 'v')
        ended = self.bus.run('set', key, '-', *more, stdin=value.encode())
        self.made.append((key, value))
        return ended

    def plain(self):
        """A write that waits for no disk: it is taken and seen whatever the disk does."""
        expect(self.write(), 0)
        key, value = self.made[-1]
        assert self.bus.get(key) == value.encode(), key

    def strict(self, size=0):
        """Return: whether it was acknowledged as durable. Else agentctl said that it is not."""
        ended = self.write('--durability', 'strict', size=size)
        if ended.code == 0:
            self.durable = len(self.made)
            self.acknowledged += 1
            return True
        assert ended.code == 1 and b'not durable' in ended.err, ended
        self.refused += 1
        return False

    def work(self):
        """What a round does. Each call of the log is in it: a first file, batches of one frame and of several, a copy of the bus,
        and files that go behind it."""
        for size in 0, BIG, 0:
            self.strict(size)
        self.bus.run('checkpoint')
        for size in BIG, 0:
            self.strict(size)

    def trouble(self):
        """Return: what agentctl says of why nothing becomes durable; None: it says of no trouble."""
        for line in expect(self.bus.run('stat'), 0).out.splitlines():
            if b'NOTHING BECOMES DURABLE NOW' in line:
                return line.rpartition(b': ')[2]
        return None

    def resume(self):
        """The disk is well. Return: whether writes become durable again; else ext4 has given itself up, and agentctl says so."""
        self.disk.tell('count')
        self.plain()

        def decided():
            return self.strict() or self.trouble() == b'Read-only file system'

        assert within(20, decided), (self.trouble(), self.bus.run('stat').out)
        return self.durable == len(self.made)

    def state(self, count):
        return dict(self.made[:count])

    def look(self):
        """What is there is what was there at one moment, and all that was acknowledged is in it."""
        found = {}
        for line in expect(self.bus.run('-o', 'json', 'scan', '--values'), 0).out.splitlines():
            pair = json.loads(line)
            found[pair['key']] = pair['value']
        last = next((count for count in range(len(self.made), self.durable - 1, -1) if self.state(count) == found), None)
        numbers = sorted(int(value.split()[0]) for value in found.values())
        assert last is not None, f'seed {SEED}: {self.durable} writes were acknowledged, and these are there: {numbers}'
        del self.made[last:]
        expect(self.bus.run('check'), 0)

    def again(self, power, io=None):
        self.disk.kill(power)
        self.start(io)
        self.look()
        if len(self.bus.files()) > FILES_MAX:  # each trouble begins another, and those of before go behind a copy of the bus
            expect(self.bus.run('checkpoint'), 0)

    def round(self, kind, nth, times, error, resume):
        """One round, in which the call @nth of @kind fails. Return: whether there was such a call."""
        self.rounds += 1
        self.disk.tell('fail', kind, nth, times, error)
        self.work()
        failed = self.disk.counts()['failed']
        self.failed += bool(failed)
        cause = self.trouble()
        assert cause is None or cause in CAUSES, cause
        assert failed or cause is None, (cause, self.disk.counts())
        self.plain()
        if resume:
            self.resume()
        self.again(power=self.rounds % 3, io=('uring', 'sync')[self.rounds % 2])
        return bool(failed)

    def say(self, what):
        print(f'# {what}: {self.failed} of {self.rounds} rounds with calls that failed; {self.acknowledged} writes were '
              f'acknowledged as durable, none was lost; {self.refused} were said not to be (seed {SEED})', flush=True)


def take_signals():
    """A program that is ended leaves nothing either."""
    for ending in ENDING:
        signal.signal(ending, end_by)


def end_by(number, _frame):
    for ending in ENDING:
        signal.signal(ending, signal.SIG_IGN)
    sys.exit(f'ended by {signal.Signals(number).name}')
