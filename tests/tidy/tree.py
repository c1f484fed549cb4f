"""The tree as tidy's rules see it: its files, their code and their prose, and what a rule may note.

How it works: of a C file, `code` has the lines with comments and the insides of strings blanked. Of any file, `prose` has
what a person reads: (line number, kind, text), the kind being 'comment', 'string' or 'document'.
"""
import os
import re
import subprocess

notes = {}


def note(what, count=1):
    """Count @what up, or say it, @count being text."""
    notes[what] = count if isinstance(count, str) else notes.get(what, 0) + count


IN_C = r'(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*")|\'(?:\\.|[^\'\\\n])*\''
IN_PYTHON = (r'(?P<string>"""(?:\\.|.)*?"""|\'\'\'(?:\\.|.)*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
             r'|(?P<comment>#[^\n]*)')
IN_SHELL = r'(?P<string>\'[^\']*\'|"(?:\\.|[^"\\])*")|(?P<comment>(?:(?<=\s)|\A)#[^\n]*)'
IN_MESON = r'(?P<string>\'(?:\\.|[^\'\\\n])*\')|(?P<comment>#[^\n]*)'
INPUTS = 'tests/fuzz/corpus-'  # bytes that tests are given, whatever they look like
DOCUMENTS = ('.md', '.1', '.3', '.8', '.svg')


def code_of(text):
    """@text with comments and the insides of strings blanked, line by line."""
    def blank(match):
        found = match.group(0)
        if found[0] in '"\'':
            return found[0] + ' ' * (len(found) - 2) + found[-1]
        return re.sub(r'[^\n]', ' ', found)
    return re.sub(IN_C, blank, text, flags=re.S)


def language_of(path, text):
    """What finds comments and strings in that file; None: there is no such thing in it."""
    if path.endswith(('.c', '.h', '.cc')):
        return IN_C
    if path.endswith('.py') or re.match(r'#!.*python', text):
        return IN_PYTHON
    if path.endswith(('.bash', '.service.in')) or re.match(r'#!.*sh\b', text):
        return IN_SHELL
    if os.path.basename(path) == 'Makefile':
        return IN_SHELL
    if os.path.basename(path).startswith('meson'):
        return IN_MESON
    return None


def prose_of(path, text):
    """(line number, kind, text) of each line that has any."""
    if path.endswith(DOCUMENTS):
        if path.endswith('.svg'):
            text = re.sub(r'<[^>]*>', lambda tag: re.sub(r'[^\n]', ' ', tag.group(0)), text)
        return [(number, 'document', line) for number, line in enumerate(text.split('\n'), 1) if line.strip()]
    language = language_of(path, text)
    found = []
    for match in re.finditer(language, text, flags=re.S) if language else []:
        if match.lastgroup:
            first = text.count('\n', 0, match.start()) + 1
            found += [(first + index, match.lastgroup, line) for index, line in enumerate(match.group(0).split('\n'))]
    return found


class File:
    def __init__(self, root, path):
        self.root, self.path = root, path
        with open(os.path.join(root, path), encoding='utf-8', errors='replace') as file:
            text = file.read()
        self.text = text
        self.lines = text.split('\n')
        if self.lines and self.lines[-1] == '':
            self.lines.pop()
        self.is_c = path.endswith(('.c', '.h'))
        self.all_code = code_of(text) if self.is_c else ''
        self.code = self.all_code.split('\n') if self.is_c else []
        self.prose = prose_of(path, text)

    def exists(self, path):
        return os.path.exists(os.path.join(self.root, path))

    def matches(self, pattern):
        """(line number, match) of the first one in each line of the code."""
        compiled = re.compile(pattern, re.M)
        if not compiled.search(self.all_code):  # in most files there is none
            return
        for number, line in enumerate(self.code, 1):
            match = compiled.search(line)
            if match:
                yield number, match


def functions(file):
    """(name, line, lines of the body with its braces, what stands before the name) of each function of a C file: its
    braces are in the first column."""
    start = None
    for number, line in enumerate(file.code, 1):
        if line.rstrip() == '{':
            start = number
        elif line.startswith('}') and start is not None:
            lines = file.code[max(0, start - 6):start - 1]
            head = re.split(r'[;}]', ' '.join(line for line in lines if not line.startswith('#')))[-1]
            head = re.sub(r'__attribute__\s*\(\(.*?\)\)', '', head)
            name = re.search(r'(\w+)\s*\(', head)
            if name:
                yield name.group(1), start, number - start + 1, head[:name.start()]
            start = None


def tracked(root):
    """The paths of the tree's text files: git's, or all when it is no checkout."""
    if os.path.exists(os.path.join(root, '.git')):
        paths = subprocess.check_output(['git', '-C', root, 'ls-files', '-co', '--exclude-standard'], text=True).splitlines()
    else:
        paths = [os.path.relpath(os.path.join(folder, name), root)
                 for folder, _, names in os.walk(root) for name in names
                 if not os.path.relpath(folder, root).startswith('build')]
    return sorted(path for path in set(paths) if not path.startswith(INPUTS)
                  and os.path.isfile(os.path.join(root, path)) and is_text(os.path.join(root, path)))


def is_text(path):
    with open(path, 'rb') as file:
        return b'\0' not in file.read(4096)
