/*
 * A screen of its own on the terminal, for a command that shows something until it is told to end.
 *
 * Standard output is the terminal; keys come from standard input, if that is one, too. Signals are
 * taken in one place, between two drawings, so the terminal is given back however the command is
 * ended or stopped (Ctrl-C, Ctrl-Z, SIGTERM, a line that hangs up), but by SIGKILL.
 *
 * Always true: between cli_terminal_begin() and cli_terminal_end() nothing else writes to the
 * terminal.
 */
#ifndef SB_CLI_TERMINAL_H
#define SB_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

/* Whether standard output is a terminal that can place text. */
bool cli_terminal_is_there(void);
/* Return: 0, -errno. */
int cli_terminal_begin(void);
/* The terminal is as it was found. */
void cli_terminal_end(void);
/* How many characters and lines there are now. */
void cli_terminal_size(int *ret_columns, int *ret_lines);
/* Show lines of printable ASCII, as far as there is room for them. */
void cli_terminal_draw(const char *text);

enum cli_terminal_event {
        CLI_TERMINAL_TIME, /* it is @until_ns */
        CLI_TERMINAL_DRAW, /* it has another size, or is to be drawn again */
        CLI_TERMINAL_END   /* q, Ctrl-C, a signal, or the terminal is gone */
};
/* Wait until CLOCK_MONOTONIC says @until_ns, or something happens. */
enum cli_terminal_event cli_terminal_await(uint64_t until_ns);

#endif
