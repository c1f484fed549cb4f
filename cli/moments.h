/*
 * Moments and spans of time: how the command line names them, and how output says them.
 *
 * A CUT on the command line is one of four: `now` is the present; digits alone are a cut's number;
 * @SECONDS since 1970 and a date and time of ISO 8601 are a time; any other text is a mark's name,
 * unless it begins with an @. A time stands for the newest cut that agentd noted no later than
 * then.
 *
 * Always true: a text means the same moment in every command. The library decides what may be a
 * mark's name by the same function (libclient/core/moment-text.h), so no mark is made that no CUT
 * can name.
 */
#ifndef SB_CLI_MOMENTS_H
#define SB_CLI_MOMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/statebus.h"

struct cli;

enum cli_moment {
        CLI_MOMENT_NOTHING, /* no CUT: an empty text, or an @ without seconds */
        CLI_MOMENT_NOW,
        CLI_MOMENT_NUMBER, /* of a cut; it may have more than 64 bits */
        CLI_MOMENT_TIME,
        CLI_MOMENT_NAME, /* of a mark */
};

/* What @text is as a CUT. @ret_time_ns: of a time, since 1970; 0 when it is earlier, UINT64_MAX
 * when it is later than 64 bits can say. */
enum cli_moment cli_moment_of(const char *text, uint64_t *ret_time_ns);

/* The cut that the CUT @text means; 0 for `now`. Return: 0, or an exit code after a message. */
int cli_cut(const struct cli *cli, struct sb_bus *bus, const char *text, uint64_t *ret_cut);
/* Say that there is no such cut, and which cuts there are. Return: CLI_USAGE. */
int cli_no_cut(const struct cli *cli, const char *text);

/* A time since 1970 as UTC, to the millisecond; 0, which is an unknown time, as "-". */
const char *cli_time_words(uint64_t time_ns, char text[static 32]);

/* A span of time such as 5s, 200ms, 1.5m, 1h, 7d. Return: 0, or CLI_USAGE after a message. */
int cli_duration(const char *text, const char *name, uint64_t *ret_ns);
/* A span of time as cli_duration() reads it, in the largest unit that gives a whole number. */
const char *cli_duration_words(uint64_t ns, char text[static 32]);
/* An age in seconds with one decimal. */
const char *cli_age_words(uint64_t ns, char text[static 32]);

#endif
