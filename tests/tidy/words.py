"""Rules of words: plain English for what is said, and one word for one thing."""
import os
import re

from tree import note

THE_HEADER = 'libclient/statebus.h'

# In pieces, so that this line does not count itself.
UNPLAIN = re.compile(r'\b(?:wh(?:o|om|ose|oever)|(?:no|some|any|every)(?:body|one)|h(?:e|im|is))\b', re.I)
UNPLAIN_PER_1000 = 0.1
STRICT = ('shm', 'ring')


def whole_plain_words(files):
    """A process is "it", and each actor has a name: words for persons stand nowhere in shm and ring, and hardly
    anywhere in comments, strings and documents of the other folders."""
    found, words, shares = {}, {}, []
    for file in files:
        folder = file.path.split('/')[0] if '/' in file.path else '.'
        for number, _, text in file.prose:
            words[folder] = words.get(folder, 0) + len(re.findall(r"[A-Za-z][A-Za-z']*", text))
            unplain = UNPLAIN.findall(text)
            if unplain:
                found.setdefault(folder, []).append((file.path, number, unplain))
    for folder in sorted(words):
        count = sum(len(unplain) for *_, unplain in found.get(folder, []))
        share = 1000 * count / max(1, words[folder])
        shares.append(f'{folder} {share:.1f}')
        if share > UNPLAIN_PER_1000 or (count and folder in STRICT):
            for path, number, unplain in found[folder]:
                yield path, number, ' '.join(unplain) + ': name the actor; a process is "it"'
    note('unplain words in 1,000', ', '.join(shares))


# Old words that have no other honest meaning: what finds them, and the word that took their place.
OLD_WORDS = (
    (r'sb_cell(64|32)', 'sb_word64, sb_word32'),
    (r'sb_peer\w*', 'sb_handle'),
    (r'struct sb_client', 'struct sb_record'),
    (r'struct sb_commit', 'struct sb_descriptor'),
    (r'\w*stocks?|\w*stock_\w*|SB_STOCK\w*', 'magazine'),
    (r'\w*keepers?|\w*keeper_\w*|\w*KEEPER\w*', 'supervisor'),
    (r'\w*VERSION_BIRTH|\w*STAMP_BIRTH', 'placeholder'),
    (r'sb_(epoch|slot|retire|own|ranges)_\w+', "its file's new noun"),
    (r'sb_view\w*|SB_VIEW\w*', 'sb_horizon'),
    (r'rings? of helpers', 'cycle of helpers'),
    (r'own view', 'prune horizon'),
)
# The same and more: most files have none.
ANY_OLD_WORD = re.compile('|'.join(pattern.replace(r'\w*', '') for pattern, _ in OLD_WORDS))
GLOSSARY_ROOMS = ('shm/', 'ring/', 'agentd/', 'libclient/', 'cli/')


def rule_words_of_the_glossary(file):
    """One word for one thing: none of the old words comes back as an identifier or in a comment."""
    if not file.is_c or not file.path.startswith(GLOSSARY_ROOMS) or not ANY_OLD_WORD.search(file.text.replace('\n', ' ')):
        return
    comments = {}
    for number, kind, text in file.prose:
        if kind == 'comment':
            comments[number] = comments.get(number, '') + ' ' + text
    for number, line in enumerate(file.code, 1):
        said = line + comments.get(number, '')
        for pattern, new in OLD_WORDS:
            match = re.search(rf'\b(?:{pattern})\b', said)
            if match:
                yield number, f'{match.group(0)}: the word is {new}'


def rule_public_prefixes(file):
    """sb_txn_*, sb_history_*, sb_mark* are the public calls and nothing else."""
    if not file.is_c or file.path == THE_HEADER:
        return
    public = public_names(file.root)
    for number, line in enumerate(file.code, 1):
        for name in re.findall(r'\bsb_(?:(?:txn|history)_\w+|marks?(?:_\w+)?)\b', line):
            if name not in public:
                yield number, f'{name} is not in {THE_HEADER}, which alone has names that begin so'


def public_names(root):
    path = os.path.join(root, THE_HEADER)
    if path not in known:
        with open(path, encoding='utf-8') as header:
            known[path] = set(re.findall(r'\bsb_\w+', re.sub(r'/\*.*?\*/', '', header.read(), flags=re.S)))
    return known[path]


known = {}
