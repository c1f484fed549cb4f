/*
 * agentd's messages: lines on standard error. In a file each line begins with the time (UTC); a
 * terminal needs none, and a journal adds its own.
 *
 * Always true: a line is one write. A process that does not read the lines delays nothing: lines
 * that it has no space for are dropped.
 */
#ifndef SB_LOG_H
#define SB_LOG_H

/* Write one line "agentd: ...", for people. */
__attribute__((format(printf, 1, 2))) void sb_log(const char *format, ...);
/* Write one line without a prefix, for programs that wait for it. */
void sb_log_word(const char *word);

#endif
