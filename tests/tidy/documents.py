"""Rules of documents: what they name is there, and what they count is so."""
import fnmatch
import glob
import os
import re

from tree import note, tracked

THE_ROOMS = 'docs/architecture.md'
THE_PROMISES = 'docs/promises.md'
THE_MESSAGES = 'docs/operating.md'
ROOMS = ('shm/', 'ring/', 'agentd/', 'libclient/', 'cli/', 'docs/examples/', 'bench/', 'tests/')
COLUMNS = 100


def named_files(text):
    """(line number, name) of each file that @text names in backquotes; {c,h} stands for both, * for anything in a folder."""
    for number, line in enumerate(text.split('\n'), 1):
        for name in re.findall(r'`([\w./*{},@-]+/[\w./*{},@-]+)`', line):
            braces = re.fullmatch(r'(.*)\{(.*)\}(.*)', name)
            for middle in braces.group(2).split(',') if braces else ['']:
                yield number, braces.group(1) + middle + braces.group(3) if braces else name


def rule_the_map_is_true(file):
    """docs/architecture.md names what is there; so do the other documents."""
    if not file.path.endswith('.md'):
        return
    for number, name in named_files(file.text):
        if name.startswith(ROOMS + ('docs/',)) and not glob.glob(os.path.join(file.root, name)):
            yield number, f'{name} is not there'


def rule_the_map_is_whole(file):
    """docs/architecture.md names every file of the rooms; the build's own files go without saying."""
    if file.path != THE_ROOMS:
        return
    names = [name for _, name in named_files(file.text)]
    for path in tracked(file.root):
        if path.startswith(ROOMS) and os.path.basename(path) != 'meson.build' and \
                not any(fnmatch.fnmatchcase(path, name) for name in names):
            yield 1, f'does not name {path}'


def rule_promises_name_tests(file):
    """In docs/promises.md each `test_name` stands behind the file that has it."""
    if file.path != THE_PROMISES:
        return
    for number, line in enumerate(file.lines, 1):
        text = None
        for name in re.findall(r'`([\w./-]+)`', line):
            path = os.path.join(file.root, name)
            if name.startswith('tests/'):
                text = ''
                if os.path.exists(path):
                    with open(path, encoding='utf-8') as source:
                        text = source.read()
            elif name.startswith('test_') and not (text and re.search(rf'\b{name}\(', text)):
                yield number, f'{name} is in no file named before it on this line'


def rule_promises_are_numbered(file):
    """Each promise has a number, and they rise by one."""
    if file.path != THE_PROMISES:
        return
    expected = 1
    for number, line in enumerate(file.lines, 1):
        if not line.startswith('|') or line.startswith(('| promise ', '| # ', '|---')):
            continue
        found = re.match(r'\| (\d+) \| ', line)
        if not found or int(found.group(1)) != expected:
            yield number, f'promise {expected} is expected here'
            return
        expected += 1


def logged_sentences(file):
    """(line number, sentence) of each sb_log() of a C file: the longest piece of it that is always the same."""
    text = re.sub(r'\bPRI\w+', '""', file.text)
    for call in re.finditer(r'\bsb_log\(((?:\s*"(?:[^"\\]|\\.)*")+)', text):
        said = ''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', call.group(1)))
        pieces = re.split(r'%%|%[-+ 0-9.]*[a-z]*|[`;:().,]', said)
        yield text.count('\n', 0, call.start()) + 1, max((piece.strip() for piece in pieces), key=len)


def whole_messages_of_the_log_are_explained(files):
    """docs/operating.md says of each line that agentd's log and recovery write what it means."""
    explained = ' '.join(re.sub(r'\s+', ' ', file.text) for file in files if file.path == THE_MESSAGES)
    for file in files:
        if file.path.startswith('agentd/wal/') and file.path.endswith('.c'):
            for number, sentence in logged_sentences(file):
                if sentence not in explained:
                    yield file.path, number, f'"{sentence}" is not in {THE_MESSAGES}'


def rule_the_readme_shows_the_examples(file):
    """A block of C in a document is a file of docs/examples, byte for byte."""
    if not file.path.endswith('.md'):
        return
    for match in re.finditer(r'^```c\n(.*?)^```', file.text, flags=re.S | re.M):
        sources = glob.glob(os.path.join(file.root, 'docs/examples/*.c'))
        texts = [open(source, encoding='utf-8').read() for source in sources]
        if match.group(1) not in texts:
            yield file.text.count('\n', 0, match.start()) + 1, 'this program is no file of docs/examples'


def rule_documents_are_narrow(file):
    """Lines of Markdown end at 100 columns, but for rows of tables, code, pictures and lines with an address."""
    if not file.path.endswith('.md'):
        return
    fenced = False
    for number, line in enumerate(file.lines, 1):
        fenced ^= line.lstrip().startswith('```')
        if len(line) > COLUMNS and not fenced and not line.startswith(('|', '    ', '![')) and '://' not in line:
            yield number, f'{len(line)} columns, {COLUMNS} at most'


def whole_documents_name_files(files):
    """What looks like a file without its folder, `stepper.h`, is the name of some file of the tree."""
    names = {os.path.basename(file.path) for file in files}
    for file in files:
        for number, _, text in file.prose if file.path.endswith('.md') else []:
            for name in re.findall(r'`([A-Za-z][\w-]*\.(?:c|h|cc|py|md|1|3|8))`', text):
                if name not in names:
                    yield file.path, number, f'{name} is no file of the tree'


def rule_comments_name_files(file):
    """A path in a comment is the path of something, with or without the end of its name."""
    if file.path.startswith('tests/tidy/'):  # where made-up trees are
        return
    for number, kind, text in file.prose:
        for name in re.findall(r'(?<![\w/.$@*<-])((?:%s)[\w/.-]*\w)(?![*{\w/])' % '|'.join(ROOMS), text):
            if kind == 'comment' and not glob.glob(os.path.join(file.root, name) + '*'):
                yield number, f'{name} is not there'


# What documents count: how they say it, with the figure as the group; and what knows it.
FIGURES = (
    (r'\blayout version (\w+)', 'SB_LAYOUT_VERSION'),
    (r'\bkeys?\b[^.\n]{0,20}?\b1 to ([\d,]+)', 'SB_KEY_LEN_MAX'),
    (r'(\d+,\d{3}) guards\b', 'SB_GUARDS_MAX'),
    (r'\bguards of one bus[^|]*\| *([\d,]+)', 'SB_GUARDS_MAX'),
    (r'(\w+) of them are a bucket', 'SB_BUCKET_CELLS'),
    (r'compares? (?:the )?(\w+) tags', 'SB_BUCKET_CELLS'),
    (r'(\w+) cells (?:a|of a|of one|in a|per) bucket', 'SB_BUCKET_CELLS'),
    (r'\bcell\[(\d+)\]', 'SB_BUCKET_CELLS'),
    (r'\border\[(\d+)\]', 'SB_HEIGHT_MAX'),
    (r'\bguard_chunk\[(\d+)\]', 'SB_GUARD_CHUNKS'),
    (r'\bposition\[(\d+)\]', 'SB_TIME_LEVELS'),
    (r'\brule_lengths\[(\d+)\]', 'SB_KEY_LEN_MAX / 64 + 1'),
    (r'up to (\w+) keys together', 'SB_WALK_FETCH'),
    (r'^ +0 +superblock +([\d,]+) bytes', 'sizeof sb_superblock'),
    (r'\bgeometry \((\d+) bytes\)', 'sizeof sb_geometry'),
    (r'\bheader of a version[^.\n]*?\b(\d+) bytes|(\d+)-byte version header|version\'s header has (\d+) bytes',
     'sizeof sb_version'),
    (r'bucket_count buckets\b.*?(\d+) bytes each', 'sizeof sb_bucket'),
    (r'\b(\d+) bytes an entry', 'sizeof sb_time'),
    (r'\b(\d+) a mark\b', 'sizeof sb_mark'),
)
IN_WORDS = {'seven': 7, 'thirty-two': 32, 'sixty-four': 64}


def number_of(text):
    """The value of a number in C or in a document; None: it is none."""
    text = IN_WORDS.get(text.lower(), text) if isinstance(text, str) else text
    digits = re.fullmatch(r'(?:UINT(?:32|64)_C\()?(0x[0-9a-fA-F]+|[\d,]+)[uUlL]*\)?', str(text))
    return int(digits.group(1).replace(',', ''), 0) if digits else None


def constants(files):
    """{name: value} of every #define of a number and every asserted size; those that differ in two places are left out."""
    found = {}
    for file in files:
        if file.path.endswith('.h') and file.path.startswith(('shm/', 'ring/', 'libclient/', 'agentd/')):
            text = '\n'.join(file.code)
            found_here = re.findall(r'^\s*#\s*define\s+(SB_\w+)\s+(\S+)\s*$', text, flags=re.M)
            found_here += [('sizeof ' + name, value) for name, value in
                           re.findall(r'static_assert\(\s*sizeof\(struct (\w+)\)\s*==\s*(\w+)', text)]
            for name, value in found_here:
                found[name] = None if found.get(name, value) != value else value
    values = {name: number_of(value) for name, value in found.items() if value}
    return {name: values.get(found[name], value) for name, value in values.items()}


def value_of(expression, known):
    """The value of a name of @known, or of NAME / n + m; None: nothing knows it."""
    name, _, rest = expression.partition(' / ')
    if known.get(name) is None or not rest:
        return known.get(name)
    divisor, _, more = rest.partition(' + ')
    return known[name] // int(divisor) + int(more)


def whole_documents_count_right(files):
    """A figure that a #define or a static assert knows is the same in documents, and in the comments of statebus.h."""
    known = constants(files)
    for file in files:
        if not file.path.endswith(('.md', '.1', '.3', '.8')) and os.path.basename(file.path) != 'statebus.h':
            continue
        for number, _, text in file.prose:
            for pattern, expression in FIGURES:
                for match in re.finditer(pattern, text):
                    said = next(group for group in match.groups() if group)
                    true = value_of(expression, known)
                    if true is None or number_of(said) is None:
                        continue
                    note('figures in documents compared with the code')
                    if number_of(said) != true:
                        yield file.path, number, f'"{match.group(0)}": {expression} is {true}'
