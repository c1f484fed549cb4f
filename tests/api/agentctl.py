"""What the tests of agentctl share: a bus in a directory of its own, agentctl run on it, also on a terminal, and what is expected of
it.

A program of tests is started as  PROGRAM AGENTCTL AGENTD [TEST]. SB_IO: the back end of each agentd that writes a log: uring, sync.
"""
import atexit
import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

AGENTCTL, AGENTD = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])


def with_back_end(agentd, name):
    """Return: an agentd that writes its log by this back end, however it is started."""
    directory = tempfile.mkdtemp(prefix='sb-agentd-')
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = os.path.join(directory, 'agentd')
    with open(path, 'w') as script:
        script.write(f'#!/bin/sh\nexec {shlex.quote(agentd)} "$@" --io {name}\n')
    os.chmod(path, 0o755)
    return path


if 'SB_IO' in os.environ:
    AGENTD = with_back_end(AGENTD, os.environ['SB_IO'])
NASTY = b'\x1b[31m\x07\x9b\\\n\r\t\xff\xc3\xa9\x7f'


def run_with(command, data, **how):
    """As subprocess.run(), with these bytes as standard input: many of them by a file, for Python fills a pipe by 4 KiB a call."""
    if len(data) <= 1 << 16:
        return subprocess.run(command, input=data, capture_output=True, **how)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return subprocess.run(command, stdin=file, capture_output=True, **how)


def crash_in(said):
    """Return: the line of agentd's by which an engine or a log ended by itself, or a sanitizer's; another one takes the place, so no
    client need notice. None: there is none. SIGKILL is a test's doing."""
    line = re.search(r'.*(was ended by signal (?!9 )|ended with status (?!137;)|runtime error|Sanitizer).*', said)
    return line and line[0]


def is_printable(said):
    """Return: whether it is ASCII, and has no control character but line feeds."""
    return not said.translate(None, bytes(range(32, 127)) + b'\n')


class Ended:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f'exit {self.code}, stdout {self.out!r}, stderr {self.err!r}'


class Bus:
    def __init__(self, *options, start=True):
        self.directory = tempfile.mkdtemp(prefix='sb-ctl-')
        if start:
            started = self.run('start', '--size', '8M', '--clients', '8', '--durability', 'volatile', *options)
            assert started.code == 0 and started.out == b'', started

    def run(self, *arguments, before=(), stdin=b'', env=None):
        ended = run_with([AGENTCTL, '-b', self.directory, *before, *arguments], stdin, timeout=60,
                         env={**os.environ, 'STATEBUS_AGENTD': AGENTD, **(env or {})})
        ended = Ended(ended.returncode, ended.stdout, ended.stderr)
        # No raw byte reaches the terminal in any case, but those of a value that get was asked for.
        assert is_printable(ended.err), ended
        return ended

    def on_terminal(self, *arguments, columns=0):
        """Run agentctl with a terminal as its standard output, of 80 columns where none are given. Return: what the terminal got, its
        line ends as agentctl wrote them."""
        controller, terminal = open_terminal()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
        process = subprocess.Popen([AGENTCTL, '-b', self.directory, *arguments], stdin=subprocess.DEVNULL, stdout=terminal,
                                   stderr=subprocess.PIPE)
        os.close(terminal)
        out = b''
        while True:
            try:
                piece = os.read(controller, 65536)
            except OSError:  # the last process that had the terminal has ended
                piece = b''
            if not piece:
                break
            out += piece
        os.close(controller)
        _, err = process.communicate(timeout=60)
        return Ended(process.returncode, out.replace(b'\r\n', b'\n'), err)

    def json(self, *arguments, code=0, before=()):
        ended = self.run('-o', 'json', *arguments, before=before)
        assert ended.code == code, ended
        assert is_printable(ended.out), ended
        return [json.loads(line) for line in ended.out.splitlines()]

    def close(self):
        """Return: as crash_in(), of all that agentd said on this bus."""
        self.run('stop')
        said = ''
        if os.path.isfile(f'{self.directory}/agentd.log'):
            with open(f'{self.directory}/agentd.log', encoding='utf-8', errors='replace') as file:
                said = file.read()
        shutil.rmtree(self.directory)
        return crash_in(said)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        crash = self.close()
        assert kind or not crash, crash


def lives(pid):
    """Whether a process runs; one that ended may wait for its parent to notice."""
    try:
        with open(f'/proc/{pid}/stat', 'rb') as file:
            return file.read().rpartition(b')')[2].split()[0] != b'Z'
    except (FileNotFoundError, ProcessLookupError):  # before it was opened, or behind that
        return False


def sleeps(process):
    """Whether the process waits for a word: it has opened its watches by then."""
    with open(f'/proc/{process.pid}/syscall', encoding='ascii') as call:
        return call.read().startswith('202 ')


def ended(process):
    """Wait until a process has ended. Return: how it did."""
    out, err = process.communicate(timeout=60)
    return Ended(process.returncode, out, err)


class Skip(Exception):
    """A test cannot be made here; why."""


def need(program):
    if shutil.which(program) is None:
        raise Skip(f'there is no {program}')


def open_terminal():
    """A terminal: its controller, and its own end."""
    try:
        return pty.openpty()
    except OSError as error:
        raise Skip(f'no terminal can be made here: {error}') from error


def expect(ended, code, out=None, words=None):
    assert ended.code == code, ended
    assert out is None or ended.out == out, ended
    assert words is None or words.encode() in ended.err, ended
    assert (ended.err != b'') == (code != 0), ended
    return ended


def main(tests):
    """Run the functions of @tests that are tests, or the one that the command line names. Return: the exit code."""
    failed = skipped = count = 0
    for name, test in list(tests.items()):
        if not name.startswith('test_') or (len(sys.argv) > 3 and sys.argv[3] != name):
            continue
        count += 1
        try:
            test()
            print(f'ok {name}', flush=True)
        except Skip as why:
            skipped += 1
            print(f'skip {name}: {why}', flush=True)
        except Exception as error:  # of any kind: it is told below
            failed += 1
            line = error.__traceback__.tb_next
            while line is not None and line.tb_next is not None and line.tb_next.tb_frame.f_code.co_filename == sys.argv[0]:
                line = line.tb_next
            where = line.tb_lineno if line is not None else 0
            print(f'FAIL {name}: {os.path.basename(sys.argv[0])}:{where} {type(error).__name__} {error}', flush=True)
    if not count:
        print(f'FAIL {sys.argv[3]}: no such test')
        return 1
    return 1 if failed else 77 if skipped == count else 0

