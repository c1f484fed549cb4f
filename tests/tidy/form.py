"""Rules of form: what clang-format does, lengths, the first lines, names of files."""
import os
import re
import shutil
import subprocess

from tree import functions, note

COLUMNS = 100
COLUMNS_MAX = 140      # of a table with one row a line: where clang-format is off, and in what it does not format
FUNCTION_LINES, FUNCTION_LINES_MAX = 70, 90
FILE_LINES, FILE_LINES_MAX = 600, 700
TEST_LINES_MAX = 1100  # a list of independent functions
BAD_NAMES = {'util', 'utils', 'common', 'misc', 'src'}
BY_HAND = 'libclient/statebus.h'  # its comments stand in columns
known_calls = {}
FORMATTER = 'version 14.'         # others write other things


def rule_names_say_something(file):
    for part in file.path.split('/'):
        if part.split('.')[0] in BAD_NAMES:
            yield 1, f'{part}: such a name says nothing'


def rule_functions_fit_the_head(file):
    if not file.is_c:
        return
    for name, number, length, _ in functions(file):
        if length > FUNCTION_LINES_MAX:
            yield number, f'{name}() has {length} lines, {FUNCTION_LINES_MAX} at most'
        elif length > FUNCTION_LINES:
            note(f'functions over {FUNCTION_LINES} lines')


def rule_public_calls_are_checked(file):
    """Each call with a bus, or with what comes from one, says so to the checked mode; one that only loads need not."""
    if not file.path.startswith('libclient/core/') or not file.path.endswith('.c'):
        return
    for name, number, length, head in functions(file):
        if name not in checked_calls(file.root):
            continue
        if not any(re.search(r'\bSB_USE', line) for line in file.code[number - 1:number + length - 1]):
            yield number, f'{name}() does not begin with SB_USE() (libclient/core/use.h)'


def checked_calls(root):
    if root not in known_calls:
        with open(os.path.join(root, BY_HAND), encoding='utf-8') as header:
            text = re.sub(r'/\*.*?\*/', '', header.read(), flags=re.S)
        calls = re.findall(r'^SB_(?:API|CALL)\b[^;(]*?\b(sb_\w+)\(struct sb_(?:bus|txn|scan|history|watch) \*', text, flags=re.M)
        known_calls[root] = set(calls) - {'sb_get', 'sb_interrupt'}  # its long way says so; any thread may, at any time
    return known_calls[root]


def rule_files_fit_the_head(file):
    if not file.is_c or file.path == 'libclient/statebus.h':  # the manual: one docstring a call
        return
    most = TEST_LINES_MAX if file.path.startswith('tests/') else FILE_LINES_MAX
    if len(file.lines) > most:
        yield len(file.lines), f'{len(file.lines)} lines, {most} at most'
    elif len(file.lines) > FILE_LINES:
        note(f'files over {FILE_LINES} lines')


def rule_nothing_is_left_for_later(file):
    if file.path.startswith('tests/tidy/'):
        return
    for match in re.finditer(r'\b(TODO|FIXME|XXX|HACK)\b', file.text):
        yield file.text.count('\n', 0, match.start()) + 1, f'{match.group(1)}: do it, or write an issue'


def rule_lines_are_clean(file):
    makefile = os.path.basename(file.path) == 'Makefile'
    formatted = c_source = file.path.endswith(('.c', '.h', '.cc')) and file.path != BY_HAND
    for number, line in enumerate(file.lines, 1):
        if 'clang-format o' in line:
            formatted = c_source and 'clang-format off' not in line
        if '\t' in line and not makefile:
            yield number, 'a tab'
        if line != line.rstrip() and not file.path.endswith('.md'):
            yield number, 'blanks at the end'
        if file.path.endswith('.md'):
            continue
        if len(line) > COLUMNS_MAX:
            yield number, f'{len(line)} columns, {COLUMNS_MAX} at most'
        elif len(line) > COLUMNS and formatted:
            yield number, f'{len(line)} columns, {COLUMNS} at most'
    if file.text and not file.text.endswith('\n'):
        yield len(file.lines), 'no newline at the end'


def rule_files_say_what_they_are(file):
    if not file.is_c or file.path.startswith('docs/examples/'):  # those are printed in the README as they are
        return
    if not file.lines or not file.lines[0].startswith('/*'):
        yield 1, 'does not open with a comment that says what it is'


def rule_tests_do_not_vanish(file):
    """An if of meson.build with a test in it has an else with `absent`: there the test is skipped, with the reason."""
    if not re.fullmatch(r'tests/(.*/)?meson\.build', file.path):
        return
    open_ifs = []  # number, condition, tests in it, those among them that are absent
    for number, line in enumerate(file.lines, 1):
        code = line.split('#')[0].strip()
        if re.search(r'\bfs\.exists\(', code):
            yield number, 'fs.exists(): tests vanish with a folder'
        if code.startswith('if '):
            open_ifs.append([number, code[3:], 0, 0])
        for own in open_ifs:
            own[2] += code.startswith('test(')
            own[3] += bool(re.match(r"test\([^,]*, absent,", code))
        if code == 'endif' and open_ifs:
            begin, condition, tests, absent = open_ifs.pop()
            if tests and not absent and condition != "get_option('faults')":
                yield begin, 'a test in an if, and no `absent` in its else'


def rule_one_null_style(file):
    """A pointer is asked by itself: `!p`, `p`, `while ((p = f()))`."""
    if not file.is_c:
        return
    for number, match in file.matches(r'[=!]= *NULL\b|\bNULL *[=!]='):
        yield number, f'{match.group(0)}: a pointer is asked by itself, p or !p'


def formatter():
    """The clang-format that the tree is written by; None: it is not installed."""
    for name in ('clang-format-14', 'clang-format'):
        path = shutil.which(name)
        if path and FORMATTER in subprocess.run([path, '--version'], capture_output=True, text=True).stdout:
            return path
    return None


def whole_clang_format(files):
    """Each C file but one is as clang-format writes it by .clang-format. Without clang-format this is only noted."""
    files = [file for file in files if file.path.endswith(('.c', '.h', '.cc')) and file.path != BY_HAND]
    if not files or not files[0].exists('.clang-format'):
        return
    path = formatter()
    if not path:
        note('files not compared with what clang-format 14 writes, which is not installed', len(files))
        return
    # Two at a time, as tests/run does it.
    halves = [half for half in (files[::2], files[1::2]) if half]
    runs = [subprocess.Popen([path, '--dry-run', *(file.path for file in half)], cwd=files[0].root, text=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for half in halves]
    for said in [run.communicate()[1] for run in runs]:
        for found in dict.fromkeys(re.findall(r'^([^:\n]+):(\d+):\d+: warning', said, flags=re.M)):
            yield found[0], int(found[1]), 'clang-format writes this in another way: make format'
