/* Text in lines that fit the terminal. */
#ifndef SB_CLI_WRAP_H
#define SB_CLI_WRAP_H

#include <stdio.h>

/* How many characters a line on standard output may have; INT_MAX: that is no terminal. */
int cli_wrap_columns(void);
/* Print text from the column @at on, in lines of @columns at most where words allow it. Lines that
 * the text does not begin itself are indented. */
void cli_wrap_words(FILE *to, const char *text, int at, int indent, int columns);
/* Print lines of text on standard output. Where one is too long for the terminal, what comes behind
 * its first @indent characters goes on below them. */
void cli_wrap_lines(const char *text, int indent);

#endif
