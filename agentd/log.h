/*
 * agentd's messages: lines on standard error. In a file each line begins with the time (UTC); a
 * terminal needs none, and a journal adds its own.
 *
 * Always true: a line is one write, and no process waits for what takes it: lines that it has no
 * space for are lost. While the bus is served that is a pipe to a process that copies them
 * (scribe.h), and they are counted; before that, a file may take its time.
 */
#ifndef SB_LOG_H
#define SB_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct sb_word32;

#define SB_LOG_LINE_MAX 1024u

/* Write one line "agentd: ...", for people. */
__attribute__((format(printf, 1, 2))) void sb_log(const char *format, ...);
/* Write one line without a prefix, for programs that wait for it. */
void sb_log_word(const char *word);
/* Make such a line, with its end, in @ret, which has SB_LOG_LINE_MAX bytes. Return: its length. */
__attribute__((format(printf, 2, 3))) size_t sb_log_make(char *ret, const char *format, ...);
/* Standard error is a pipe from now on, and what is at its end a file if @is_file. *lost counts the
 * lines that it has no space for. */
void sb_log_into_pipe(bool is_file, struct sb_word32 *lost);

#endif
