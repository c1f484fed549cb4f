"""A bus with a log in a directory, and the agentd that serves it: started, killed as a whole, stopped, looked at."""
import atexit
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from agentctl import AGENTCTL, AGENTD, crash_in, expect, lives, run_with

PATIENCE = int(os.environ.get('SB_API_PATIENCE_MS', 60000)) / 1000  # less where agentd is broken on purpose


def what_is_there(pipe):
    """What a pipe has now: a process that came meanwhile may have its other end."""
    said = b''
    os.set_blocking(pipe.fileno(), False)
    try:
        while chunk := os.read(pipe.fileno(), 65536):
            said += chunk
    except BlockingIOError:
        pass
    return said.decode(errors='replace')


def signal_each(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # a log ends with its engine, or by itself
            pass


def kill_at_once(pids):
    """None of them has time for anything: an engine that still runs takes the place of a killed supervisor, and starts another one."""
    for number in signal.SIGSTOP, signal.SIGKILL:
        signal_each(pids, number)


class Durable:
    """A bus in a directory, and the agentd that serves it."""

    def __init__(self, directory=None, mode='batched'):
        self.directory = directory or tempfile.mkdtemp(prefix='sb-durable-')
        self.mode = mode
        self.said = ''
        self.process = None
        atexit.register(self.end)  # a test that fails leaves it running

    def end(self):
        while self.process and (self.process.poll() is None or self.pids()):
            self.signal_all(signal.SIGKILL)  # again and again: some start others

    def start(self, *options, mode=None, size='8M'):
        """Return: whether it became ready; what it said is in said."""
        self.process = subprocess.Popen([AGENTD, '-b', self.directory, '--size', size, '--clients', '8',
                                         '--durability', mode or self.mode, *options], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        self.said = ''
        while True:
            line = self.process.stderr.readline()
            self.said += line
            if line == 'ready\n':
                return self
            if not line:
                self.process.wait(timeout=60)
                return None

    def run(self, *arguments, stdin=b''):
        ended = run_with([AGENTCTL, '-b', self.directory, *arguments], stdin, timeout=PATIENCE)
        ended.code, ended.out, ended.err = ended.returncode, ended.stdout, ended.stderr
        return ended

    def set(self, key, value, *more):
        expect(self.run('set', key, value, *more), 0)

    def get(self, key):
        ended = self.run('get', key)
        return ended.out if ended.code == 0 else None

    def pids(self):
        """The processes of this agentd: supervisor, engine, log, scribe."""
        found = {}
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{pid}/comm', encoding='utf-8') as file:
                    name = file.read().strip()
                if not name.startswith('agentd'):
                    continue
                with open(f'/proc/{pid}/cmdline', 'rb') as file:
                    of_this = self.directory.encode() in file.read().split(b'\0')
            except OSError:
                continue
            if of_this and lives(pid):
                found[name] = int(pid)
        return found

    def all_pids(self):
        """The same, once all four are there: a bus is served before its log runs."""
        assert within(20, lambda: len(self.pids()) == 4), self.pids()
        return self.pids()

    def signal_all(self, number):
        """Return: those that were there."""
        pids = list(self.pids().values())
        signal_each(pids, number)
        return pids

    def kill_while_it_starts(self):
        """All of them, with those that come meanwhile. What it said is in said."""
        while self.process.poll() is None or self.pids():
            self.signal_all(signal.SIGKILL)
        self.said = self.process.stderr.read()

    def kill_all(self):
        """At once: none of them has time for anything."""
        pids = list(self.pids().values())
        kill_at_once(pids)
        if self.process:
            self.process.wait(timeout=60)
        deadline = time.monotonic() + 20
        while any(lives(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.001)
        if self.process and self.process.stderr and not self.process.stderr.closed:
            crash = crash_in(what_is_there(self.process.stderr))
            self.process.stderr.close()
            assert not crash, crash

    def stop(self, status=0):
        """Stop it, and expect that exit status."""
        self.process.send_signal(signal.SIGTERM)
        self.said += self.process.stderr.read()
        assert self.process.wait(timeout=60) == status and not crash_in(self.said), self.said
        self.process.stderr.close()

    def files(self):
        return sorted(name for name in os.listdir(self.directory) if name.startswith('wal-') and 'spare' not in name)

    def remove(self):
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.directory)


def past(bus, key='kept/a'):
    """All that is known of a key, but when: that comes back with the time of its batch."""
    lines = [json.loads(line) for line in bus.run('-o', 'json', 'history', key).out.splitlines()]
    return [{name: value for name, value in line.items() if name != 'time'} for line in lines]


def within(seconds, true):
    """Whether it comes true in time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
