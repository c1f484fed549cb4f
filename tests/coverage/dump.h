/*
 * Put before every file of a tree that counts what it executes (tests/coverage/coverage): a process
 * that ends by _exit() or abort() writes its counts, too, as one that ends by exit() does. A
 * process that is killed writes none. Some of these files are C99.
 */
#ifndef SB_COVERAGE_DUMP_H
#define SB_COVERAGE_DUMP_H

void __gcov_dump(void);
/* The C library's own, under other names. */
__attribute__((noreturn)) void sb_coverage_exit(int status) __asm__("_exit");
__attribute__((noreturn)) void sb_coverage_abort(void) __asm__("abort");

__attribute__((unused, noreturn)) static void sb_coverage_dump_and_exit(int status)
{
        __gcov_dump();
        sb_coverage_exit(status);
}

__attribute__((unused, noreturn)) static void sb_coverage_dump_and_abort(void)
{
        __gcov_dump();
        sb_coverage_abort();
}

#define _exit sb_coverage_dump_and_exit
#define abort sb_coverage_dump_and_abort

#endif
