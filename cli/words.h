/* The words of a line, quoted as in a shell. */
#ifndef SB_CLI_WORDS_H
#define SB_CLI_WORDS_H

#include <stddef.h>

/* Split the @len bytes at @line into words, in place; line[len] must be the caller's, too. Each
 * word ends with a zero byte. Return: NULL, or what is wrong with the line, for a message. */
const char *cli_split(char *line, size_t len, char **words, size_t words_max, size_t *ret_count);

#endif
