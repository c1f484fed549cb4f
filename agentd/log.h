/*
 * What agentd says: lines on standard error. In a file each begins with the time (UTC); a terminal
 * needs none, and a journal has its own.
 *
 * Always true: a line is one write, and a reader who does not read delays nobody: the line is
 * dropped instead.
 */
#ifndef SB_LOG_H
#define SB_LOG_H

/* One line "agentd: ...", for people. */
__attribute__((format(printf, 1, 2))) void sb_log(const char *format, ...);
/* One line as it is, for programs that wait for it. */
void sb_log_word(const char *word);

#endif
