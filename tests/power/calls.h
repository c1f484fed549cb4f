/*
 * The calls of the C library that change files, below code that has no table of functions for them:
 * what it does in one directory, and in those below it, is recorded (recorder.h), and one of the
 * calls fails on request. The linker has the calls come here first (meson.build: calls_wraps).
 *
 * A failed sync of a directory leaves no record: its names wait for the next sync. A file system
 * that cannot write its directories gives itself up, so what comes later finds what is on the disk.
 *
 * Always true: what stands in the record was done, in this order; a file of locks is not in it, for
 * it is empty and no reader asks for its name. Outside of the directory nothing is recorded, and
 * nothing fails.
 */
#ifndef SB_TESTS_POWER_CALLS_H
#define SB_TESTS_POWER_CALLS_H

#include "tests/power/recorder.h"

/* From here on the calls are recorded; @recorder has the names that are there. The directory has no
 * symbolic link in its path. */
void calls_begin(struct recorder *recorder, const char *path, int directory_fd);
/* No more, and once more. */
void calls_end(void);
void calls_resume(void);
/* Whether renameat2() is one that this file system does not know. */
void calls_age(bool is_old);

#endif
