"""Huge pages for the tests that need some: reserved while they run, and given back.

A Reservation adds pages to the kernel's number of them (nr_hugepages), and takes the same number away again. What is
held lies in a directory of empty files, whose names say all: `floor-N`, the number before the first reservation, and
`held-PID-START-N` for each process that holds N pages, with the time at which the process started. The directory is on
a file system that a reboot empties, and has the boot's own name, so nothing in it is older than the kernel's number.

Always true: pages are given back by their holder, also when it is interrupted; after a SIGKILL the next reservation
gives them back, or the same program at its end. The number never falls below what it was before, plus what other
living processes hold; and where something else lowered it meanwhile, it is not raised.
"""
import contextlib
import fcntl
import os

KERNEL = '/sys/kernel/mm/hugepages/hugepages-2048kB'
PAGE_KIB = 2048


class Unavailable(Exception):
    """Why no pages can be reserved, as words."""


def read_number(path):
    with open(path, encoding='ascii') as file:
        return int(file.read())


def started(pid):
    """When a process began, in the kernel's ticks; None: there is no such process."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as file:
            return int(file.read().rpartition(')')[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def records():
    """The directory of this boot's reservations."""
    with open('/proc/sys/kernel/random/boot_id', encoding='ascii') as file:
        return f'/run/statebus-tests-{file.read()[:8]}'


def memory_available_kib():
    with open('/proc/meminfo', encoding='ascii') as file:
        return next(int(line.split()[1]) for line in file if line.startswith('MemAvailable:'))


class Reservation:
    """@count pages, from take() to give_back()."""

    def __init__(self, count, kernel=KERNEL):
        self.count, self.kernel = count, kernel
        self.directory = None if kernel == KERNEL else f'{kernel}/records'
        self.taken = 0

    def number(self):
        """How many there are for good. (Pages that are in use when the number falls go when they are free.)"""
        return read_number(f'{self.kernel}/nr_hugepages') - read_number(f'{self.kernel}/surplus_hugepages')

    def set_number(self, number):
        with open(f'{self.kernel}/nr_hugepages', 'w', encoding='ascii') as file:
            file.write(str(number))

    @contextlib.contextmanager
    def records_locked(self):
        """Yields the names in the directory. No other reservation begins or ends meanwhile."""
        self.directory = self.directory or records()
        os.makedirs(self.directory, exist_ok=True)
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield os.listdir(self.directory)
        finally:
            os.close(descriptor)

    def forget(self, names):
        for name in names:
            os.unlink(f'{self.directory}/{name}')

    def settle(self, names, ended):
        """Give back what the holders named @ended hold. Return: the names that are left."""
        held = {name: name.split('-')[1:] for name in names if name.startswith('held-')}
        floors = [name for name in names if name.startswith('floor-')]
        left = [name for name in held if name not in ended]
        if held and floors:
            least = int(floors[0].split('-')[1]) + sum(int(held[name][2]) for name in left)
            present = self.number()
            wanted = max(least, present - sum(int(held[name][2]) for name in ended))
            if wanted < present:
                self.set_number(wanted)
        self.forget(ended)
        if left:
            return left + floors
        self.forget(floors)
        return []

    def dead(self, names):
        return [name for name in names if name.startswith('held-') and
                started(int(name.split('-')[1])) != int(name.split('-')[2])]

    def take(self):
        """Reserve the pages; first, give back those of processes that were killed. Raises Unavailable."""
        try:
            with self.records_locked() as names:
                names = self.settle(names, self.dead(names))
                free = read_number(f'{self.kernel}/free_hugepages') - read_number(f'{self.kernel}/resv_hugepages')
                if not names and free >= self.count:
                    return  # the machine has enough anyway
                if memory_available_kib() < 2 * PAGE_KIB * self.count:
                    raise Unavailable(f'{self.count} huge pages would be more than half of the memory that is free')
                before = self.number()
                if not any(name.startswith('floor-') for name in names):
                    open(f'{self.directory}/floor-{before}', 'w', encoding='ascii').close()
                own = f'held-{os.getpid()}-{started(os.getpid())}-{self.count}'
                open(f'{self.directory}/{own}', 'w', encoding='ascii').close()
                self.taken = self.count
                try:
                    self.set_number(before + self.count)
                    reserved = self.number() - before
                except (OSError, ValueError):
                    reserved = -1
                if reserved < self.count:
                    if reserved > 0:
                        self.set_number(before)
                    self.settle(os.listdir(self.directory), [own])
                    self.taken = 0
                    raise Unavailable('this process may not reserve huge pages' if reserved < 0 else
                                      f'the kernel had {reserved} of {self.count} huge pages')
        except PermissionError as error:
            raise Unavailable('this user may not reserve huge pages') from error
        except (OSError, ValueError) as error:
            raise Unavailable(f'huge pages cannot be reserved here: {error}') from error

    def give_back(self):
        if not self.taken:
            return
        with self.records_locked() as names:
            own = [name for name in names if name.startswith(f'held-{os.getpid()}-')]
            self.settle(names, own + [name for name in self.dead(names) if name not in own])
        self.taken = 0
