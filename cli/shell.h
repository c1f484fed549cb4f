/*
 * Running a command that the user gave, in a shell: /bin/sh -c COMMAND.
 *
 * The command's standard input is a file in memory that holds all of it before the command begins.
 * So a command may read it, a part of it or nothing, at its own speed, and agentctl never waits for
 * a reader. A pipe would give agentctl an error when the command does not read, and would hand a
 * command only a part when agentctl ends first.
 *
 * Always true: a command begins with SIGPIPE as any shell's commands have it, though agentctl
 * ignores that signal.
 */
#ifndef SB_CLI_SHELL_H
#define SB_CLI_SHELL_H

#include <stdint.h>
#include <stdio.h>

/* Make an input to write to. Return: it, or NULL with errno. */
FILE *cli_shell_input(void);
/* Run @command with what was written to @input, which is closed in any case, and wait until it has
 * ended. When the deadline comes first (CLOCK_MONOTONIC; UINT64_MAX: none), the command runs on by
 * itself. Return: 0: the command ended with exit status 0; else an exit code after a message,
 * CLI_TIMED_OUT when it runs on. */
int cli_shell_run(const char *command, FILE *input, uint64_t deadline_ns);

#endif
